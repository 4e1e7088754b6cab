"""The client families: how each is run, in which version, and what it has no means for.

The comparison table in ../README.md is made of this, and the tests hold each cell to it: a scenario that is not listed
under `lacks` runs and must pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.clients.families import toolchains
from tests.clients.families.program import Command, Program, run_program
from tests.clients.families.toolchains import JAVA_OPTIONS, PROGRAMS, ToolMissing
from tests.clients.families.tools import GroupCommand, run_kcat
from tests.reference.broker import KAFKA_VERSION, TOOLS, ReferenceUnavailable, kafka_libs

SCENARIOS: Mapping[str, str] = {
    "join": "three members join",
    "leave": "one leaves",
    "kill": "one is killed",
    "resume": "commit, daemon killed, resume",
    "static": "static member restarts",
    "eager": "eager assignors",
    "cooperative": "cooperative assignor",
    "describe": "list and describe groups",
    "offsets": "list offsets",
    "alter": "alter offsets",
    "delete offsets": "delete offsets",
    "delete": "delete groups",
    "produce": "produce, every codec",
    "transactions": "transactional producer",
    "read committed": "read committed",
}
CONSUMER_SCENARIOS: Mapping[str, str] = {
    **{name: title for name, title in SCENARIOS.items() if name not in ("eager", "produce", "transactions")},
    "cooperative": "what stays is never revoked",
    "assignors": "the coordinator's assignors",
    "expression": "regular expression",
    "list by type": "list by type and state",
    "copy": "read, process, write: exactly once",
}
"""By the consumer protocol: the client's codecs and its transactional producer are the same."""
CONSUMING = ("join", "leave", "kill", "resume", "static", "eager", "cooperative", "read committed")
PRODUCING = ("produce", "transactions")
ADMIN = ("describe", "offsets", "alter", "delete offsets", "delete")

CLASSIC, CONSUMER = "classic", "consumer"
EAGER = ("range", "roundrobin", "sticky")
OF_THE_COORDINATOR = ("uniform", "range")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def lacking(*scenarios: str, why: str) -> dict[str, str]:
    return dict.fromkeys(scenarios, why)


@dataclass(frozen=True, slots=True)
class Client:
    """`command` installs what is needed and may raise ToolMissing. `lacks` says why a scenario cannot be played."""

    name: str
    command: Callable[[], Command]
    lacks: Mapping[str, str] = field(default_factory=dict)
    assignors: tuple[str, ...] = EAGER
    codecs: tuple[str, ...] = CODECS
    optional: bool = False  # absent tools are no error in CI either
    start: Callable[..., Program | GroupCommand] = run_program
    protocol: str = CLASSIC

    @property
    def slug(self) -> str:
        word = re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-")
        return word if self.protocol == CLASSIC else f"{word}-{self.protocol}"

    @property
    def scenarios(self) -> Mapping[str, str]:
        return SCENARIOS if self.protocol == CLASSIC else CONSUMER_SCENARIOS

    def plays(self, scenario: str) -> bool:
        return scenario in self.scenarios and scenario not in self.lacks


def python_program(name: str, *requirements: str) -> Callable[[], Command]:
    return lambda: Command([toolchains.python(*requirements), str(PROGRAMS / "python" / name)], {})


def java_program(kafka_clients: str) -> Callable[[], Command]:
    def command() -> Command:
        libs = toolchains.jars(f"org.apache.kafka:kafka-clients:{kafka_clients}")
        return Command(toolchains.java("KafkaClients", libs), {})

    return command


def go_program(name: str) -> Callable[[], Command]:
    return lambda: Command([toolchains.go(name)])


def kafkajs() -> Command:
    node, directory = toolchains.node("kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "kafkajs-lz4@1.2.1")
    return Command([node, str(PROGRAMS / "node" / "kafkajs.js")], {"NODE_PATH": str(directory / "node_modules")})


def kcat() -> Command:
    path = toolchains.tool("kcat", "kcat")
    shown = toolchains.run([path, "-V"])
    if f"Version {KCAT_VERSION} " not in shown:
        raise ToolMissing(f"is kcat {KCAT_VERSION}, this is {shown.splitlines()[-2:]}")
    return Command([path])


def group_command() -> Command:
    try:
        libs = kafka_libs()
    except ReferenceUnavailable as missing:
        raise ToolMissing(str(missing)) from None
    java = [toolchains.tool("java", "openjdk-17-jre-headless"), *JAVA_OPTIONS]
    return Command([*java, "-cp", f"{libs}/*", TOOLS["ConsumerGroupCommand"]])


def spark() -> tuple[Command, str]:
    """The program, and the jars that its session needs beside Spark's own, by commas."""
    java = Path(toolchains.tool("java", "openjdk-17-jre-headless")).resolve()
    libs = toolchains.jars(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}")
    needed = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    jars = ",".join(str(jar) for jar in sorted(libs.glob("*.jar")) if jar.name.startswith(needed))
    python = toolchains.python(f"pyspark=={SPARK_VERSION}")
    environment = {"JAVA_HOME": str(java.parents[1]), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    return Command([python, str(PROGRAMS / "python" / "spark_program.py")], environment), jars


KCAT_VERSION = "1.7.1"
SPARK_VERSION = "4.2.0"

CLIENTS: tuple[Client, ...] = (
    Client(
        "kafka-python 3.0.12",
        python_program("kafka_python_3_program.py", "kafka-python[crc32c,lz4,snappy,zstd]==3.0.12"),
    ),
    Client(
        "kafka-python 2.3.3",
        python_program("kafka_python_2_program.py", "kafka-python[crc32c,lz4,snappy,zstd]==2.3.3"),
        lacks={
            "cooperative": "no such assignor",
            **lacking("alter", "delete offsets", why="no such call in its admin client"),
        },
    ),
    Client(
        "confluent-kafka 2.16.1 (librdkafka)",
        python_program("confluent_kafka_program.py", "confluent-kafka==2.16.1"),
        lacks={"delete offsets": "no such call in its admin client"},
        assignors=("range", "roundrobin"),
    ),
    Client(
        "aiokafka 0.14.0",
        python_program("aiokafka_program.py", "aiokafka[lz4,snappy,zstd]==0.14.0"),
        lacks={
            "cooperative": "no such assignor",
            **lacking("alter", "delete offsets", "delete", why="no such call in its admin client"),
        },
    ),
    Client("Java client 4.4.0", java_program("4.4.0")),
    Client("Java client 3.9.2", java_program("3.9.2")),
    Client(
        "kafkajs 2.2.4",
        kafkajs,
        lacks={
            "static": "no group.instance.id",
            "cooperative": "no such assignor",
            "delete offsets": "no such call in its admin client",
        },
        assignors=("roundrobin",),
        codecs=("none", "gzip", "snappy", "lz4"),
    ),
    Client("franz-go 1.22.3", go_program("franz"), optional=True),
    Client(
        "sarama 1.61.1",
        go_program("sarama"),
        lacks={"cooperative": "no such assignor", "alter": "no such call in its admin client"},
        optional=True,
    ),
    Client(
        "kafka-go 0.4.51",
        go_program("kafkago"),
        lacks={
            "static": "no group.instance.id",
            "cooperative": "no such assignor",
            "transactions": "no transactional producer",
            "read committed": "hands over aborted records and markers, on Kafka too",
        },
        assignors=("range", "roundrobin"),
        optional=True,
    ),
    Client(
        f"kcat {KCAT_VERSION} (librdkafka 2.0.2)",
        kcat,
        lacks=lacking(*ADMIN, why="no such command") | {"transactions": "commits at its end, cannot abort"},
        assignors=("range", "roundrobin"),
        start=run_kcat,
    ),
    Client(
        f"ConsumerGroupCommand {KAFKA_VERSION}",
        group_command,
        lacks=lacking(*CONSUMING, *PRODUCING, why="an admin tool"),
        start=GroupCommand,
    ),
)

LACKING_BY_CONSUMER_PROTOCOL = {
    "franz-go 1.22.3": {"static": "its temporary leave lacks the instance id: refused, on Kafka too"},
}

# Those of them whose members can be members by the consumer protocol (KIP-848): that is a setting of theirs.
CONSUMER_CLIENTS: tuple[Client, ...] = tuple(
    replace(
        client,
        protocol=CONSUMER,
        assignors=OF_THE_COORDINATOR,
        lacks={name: why for name, why in client.lacks.items() if name in CONSUMER_SCENARIOS}
        | LACKING_BY_CONSUMER_PROTOCOL.get(client.name, {}),
    )
    for client in CLIENTS
    if client.name.startswith(("confluent-kafka", "Java client 4", "franz-go"))
)
