"""The client families whose whole surface is called: each a program, in the versions of ../families/clients.py.

Add a family: a program (programs/README.md), a line here, what differs in differences.py, and its section by
`pytest tests/clients/surface --rewrite`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.clients.families import clients, toolchains
from tests.clients.families.program import Command

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Family:
    """`command` installs what is needed and may raise ToolMissing; `optional`: absent tools are no error in CI."""

    name: str
    version: str
    command: Callable[[], Command]
    optional: bool = False


def python_program(name: str, requirement: str) -> Callable[[], Command]:
    return lambda: Command([toolchains.python(requirement), str(PROGRAMS / "python" / name)])


def go_program(name: str) -> Callable[[], Command]:
    return lambda: Command([toolchains.go(name, PROGRAMS / "go")])


def java_program(kafka_clients: str) -> Callable[[], Command]:
    def command() -> Command:
        libs = toolchains.jars(f"org.apache.kafka:kafka-clients:{kafka_clients}")
        return Command(toolchains.java("KafkaSurface", libs, PROGRAMS / "java"))

    return command


def kafkajs() -> Command:
    node, directory = toolchains.node("kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "kafkajs-lz4@1.2.1")
    environment = {"NODE_PATH": str(directory / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return Command([node, str(PROGRAMS / "node" / "kafkajs.js")], environment)


def kcat() -> Command:
    environment = {"KCAT": clients.kcat().words[0]}
    return Command([sys.executable, str(PROGRAMS / "python" / "kcat_program.py")], environment)


FAMILIES: tuple[Family, ...] = (
    Family(
        "kafka-python",
        "3.0.12",
        python_program("kafka_python_program.py", "kafka-python[crc32c,lz4,snappy,zstd]==3.0.12"),
    ),
    Family("aiokafka", "0.14.0", python_program("aiokafka_program.py", "aiokafka[lz4,snappy,zstd]==0.14.0")),
    Family("confluent-kafka", "2.16.1", python_program("confluent_kafka_program.py", "confluent-kafka==2.16.1")),
    Family("Java", "4.4.0", java_program("4.4.0")),
    Family("kafkajs", "2.2.4", kafkajs),
    Family("kcat", "1.7.1", kcat),
    Family("franz-go", "1.22.3", go_program("franz"), optional=True),
    Family("sarama", "1.61.1", go_program("sarama"), optional=True),
    Family("kafka-go", "0.4.51", go_program("kafkago"), optional=True),
)
