"""Record what clients of the consumer protocol (KIP-848) say: Kafka's Java client and librdkafka, with Apache Kafka.

    python -m tests.clients.record_consumer_protocol [java] [librdkafka]

Writes tests/golden/consumer_protocol/CLIENT.jsonl: a line about the origin, then for each story and member its
ConsumerGroupHeartbeats with their responses, in order. Needs Java 17, Maven, and `make .venv/.clients`; two minutes.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from kafka_wire.api_key import ApiKey
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from tests.clients.recording_proxy import Frame, RecordingProxy
from tests.daemon import free_port
from tests.reference.broker import HOST, KAFKA_VERSION, kafka_libs, running_broker
from tests.testing.simulation.reality import java_program

GOLDEN = Path(__file__).parents[1] / "golden" / "consumer_protocol"
PARTITIONS = 4
SETTLE_S = 12.0
OVERRIDES = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


class Librdkafka:
    """A consumer of confluent-kafka in a thread."""

    def __init__(self, bootstrap: str, topic: str, settings: dict[str, str]) -> None:
        import confluent_kafka

        self.consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **settings})
        self.consumer.subscribe([topic])
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopped.is_set():
            self.consumer.poll(0.1)
        self.consumer.close()

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()


class Java:
    """A process of tests/testing/simulation/RealConsumer.java."""

    def __init__(self, bootstrap: str, topic: str, settings: dict[str, str]) -> None:
        pairs = {"bootstrap.servers": bootstrap, **settings}
        command = [*java_program(), topic, *(f"{name}={value}" for name, value in pairs.items())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        while '"ready"' not in self.process.stdout.readline():
            assert self.process.poll() is None
        self._say("join")

    def _say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        self._say("stop")
        self.process.wait(30)


CLIENTS: dict[str, Callable[..., Any]] = {"librdkafka": Librdkafka, "java": Java}


def two_share(start: Callable[..., Any]) -> None:
    """The second member takes half of the first one's partitions, and gives them back."""
    one = start("one")
    time.sleep(SETTLE_S)
    two = start("two")
    time.sleep(SETTLE_S * 2)
    two.stop()
    time.sleep(SETTLE_S)
    one.stop()


def static_restart(start: Callable[..., Any]) -> None:
    """A static member goes, and comes back to its partitions."""
    first = start("first", instance="i")
    time.sleep(SETTLE_S)
    first.stop()
    time.sleep(1.0)
    second = start("second", instance="i")
    time.sleep(SETTLE_S)
    second.stop()


def an_assignor(start: Callable[..., Any]) -> None:
    """A member asks for an assignor of the server."""
    one = start("one", assignor="uniform")
    time.sleep(SETTLE_S)
    one.stop()


STORIES = {each.__name__: each for each in (two_share, static_restart, an_assignor)}


def heartbeats(frames: list[Frame], client_id_prefix: str) -> list[dict[str, str]]:
    """The heartbeats of the members of one story, each with its response."""
    found: list[dict[str, str]] = []
    waiting: dict[tuple[int, int], dict[str, str]] = {}
    for frame in frames:
        if frame.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT:
            continue
        used = codec(frame.api_key, frame.api_version)
        if frame.direction == "request":
            header, _ = read_request_header(frame.data, 0, len(frame.data), used.flexible)
            client_id = header.client_id or ""
            if not client_id.startswith(client_id_prefix):
                continue
            line = {"member": client_id.removeprefix(client_id_prefix), "request": frame.data.hex()}
            waiting[frame.connection, header.correlation_id] = line
            found.append(line)
        else:
            line = waiting.pop((frame.connection, int.from_bytes(frame.data[:4], "big")), {})
            line["response"] = frame.data.hex()
    return found


def record(name: str, client: Callable[..., Any], bootstrap: str, proxy: RecordingProxy) -> list[dict[str, str]]:
    lines = []
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    for story, play in STORIES.items():
        topic = f"{name}-{story}"
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])

        def start(member: str, *, instance: str = "", assignor: str = "", topic: str = topic) -> Any:
            settings = {"group.protocol": "consumer", "group.id": topic, "client.id": f"{topic}.{member}"}
            settings |= {"auto.offset.reset": "earliest"} if name != "java" else {}
            settings |= {"group.instance.id": instance} if instance else {}
            settings |= {"group.remote.assignor": assignor} if assignor else {}
            return client(bootstrap, topic, settings)

        play(start)
        proxy_lines = heartbeats(proxy.take(), f"{topic}.")
        of_story = [line for line in proxy_lines if _group(line["request"]) == topic]
        lines += [{"story": story, **line} for line in of_story]
    admin.close()
    return lines


def _group(request: str) -> str:
    data = bytes.fromhex(request)
    used = codec(ApiKey.CONSUMER_GROUP_HEARTBEAT, int.from_bytes(data[2:4], "big"))
    _, start = read_request_header(data, 0, len(data), used.flexible)
    return str(used.decode_request(data, start, len(data)).group_id)


def version_of(name: str) -> str:
    if name == "java":
        return f"kafka-clients {KAFKA_VERSION}"
    import confluent_kafka

    return f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"


def main(names: list[str]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        with (
            running_broker(kafka_libs(), Path(directory), OVERRIDES, advertised_port=port) as broker,
            RecordingProxy(HOST, port, broker.host, broker.port) as proxy,
        ):
            for name in names:
                lines = record(name, CLIENTS[name], f"{HOST}:{port}", proxy)
                origin = {
                    "client": version_of(name),
                    "broker": f"Apache Kafka {KAFKA_VERSION}",
                    "recorded": datetime.date.today().isoformat(),
                    "frames": "without the four bytes of their size",
                }
                told = [json.dumps(each) for each in ({"origin": origin}, *lines)]
                (GOLDEN / f"{name}.jsonl").write_text("\n".join(told) + "\n")
                print(f"{name}: {len(lines)} heartbeats")


if __name__ == "__main__":
    main(sys.argv[1:] or list(CLIENTS))
