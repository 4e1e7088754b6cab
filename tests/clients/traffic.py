"""Record what consumers send all day: around rebalances, for minutes of steady consumption, and at their close.

    python -m tests.clients.traffic [--broker HOST:PORT --proxy-port PORT] [--out DIRECTORY] [--steady-s 600]

Three members of each client family, with the settings that their client has by default, read topics of six partitions
to which a record comes each second and partition. They come in through a proxy that keeps the bytes that they send.
Without --broker they talk to Apache Kafka, which is started for it (needs Java 17 and Maven). A broker that is there
already has to advertise 127.0.0.1 and the proxy's port, and to make topics of six partitions when it is asked for them.
See tests/golden/traffic/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaProducer

from tests.clients.families.clients import CLIENTS
from tests.clients.families.program import Command, Program, run_program
from tests.clients.recorded import CLOSED, OPENED, PHASES, TRAFFIC, path_of, write
from tests.clients.recording_proxy import Frame, RecordingProxy
from tests.daemon import free_port
from tests.reference.broker import HOST, KAFKA_VERSION, kafka_libs, running_broker

FAMILIES = {
    "kafka-python": "kafka-python 3.0.12",
    "librdkafka": "confluent-kafka 2.16.1 (librdkafka)",
    "java": "Java client 4.4.0",
    "franz-go": "franz-go 1.22.3",
}
PARTITIONS = 6
VALUE_BYTES = 100
SETTLED_S = 20.0
EXPELLED_S = 65.0  # the default session of 45 seconds, and a rebalance


@dataclass(slots=True)
class Family:
    """Three members of one client, and when their phases began (time.monotonic(); the last is the end)."""

    name: str
    command: Command
    bootstrap: str
    marks: list[float] = field(default_factory=list)
    members: list[Program] = field(default_factory=list)
    failure: BaseException | None = None

    def start(self) -> Program:
        """One more member. Its client id tells which one it is."""
        member = run_program(
            self.command,
            mode="consume",
            settings="default",
            bootstrap=self.bootstrap,
            group=f"group-{self.name}",
            topic=topic(self.name),
            client_id=f"{self.name}-{len(self.members) + 1}",
        )
        self.members.append(member)
        return member

    def live(self, steady_s: float) -> None:
        """All phases, one after the other."""
        try:
            self._live(steady_s)
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            for member in self.members:
                if member.process.poll() is None:
                    member.kill()

    def _live(self, steady_s: float) -> None:
        self.marks.append(time.monotonic())
        first, second, third = [self._started_after(3.0) for _ in range(3)]
        time.sleep(SETTLED_S)
        second.close()
        time.sleep(SETTLED_S)
        third.kill()
        time.sleep(EXPELLED_S)
        staying = [first, self._started_after(0.0), self._started_after(3.0)]
        time.sleep(SETTLED_S)
        self.marks.append(time.monotonic())
        time.sleep(steady_s)
        self.marks.append(time.monotonic())
        for member in staying:
            member.close()
            time.sleep(5.0)
        self.marks.append(time.monotonic())

    def _started_after(self, seconds: float) -> Program:
        time.sleep(seconds)
        return self.start()


def topic(family: str) -> str:
    return f"records-{family}"


def commands() -> dict[str, Command]:
    by_name = {client.name: client for client in CLIENTS}
    return {family: by_name[name].command() for family, name in FAMILIES.items()}


@contextlib.contextmanager
def producing(bootstrap: str) -> Iterator[None]:
    """A record a second for each partition of each topic, for the duration of the block."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="producer")
    partitions = [(topic(family), number) for number in range(PARTITIONS) for family in FAMILIES]
    stopped = threading.Event()

    def run() -> None:
        for name, number in itertools.cycle(partitions):
            if stopped.wait(1 / len(partitions)):
                break
            producer.send(name, b"x" * VALUE_BYTES, partition=number)

    for family in FAMILIES:
        producer.partitions_for(topic(family))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        producer.close(timeout=5)


def lines_of(
    proxy: RecordingProxy, frames: Sequence[Frame], began_s: float, first_s: float, last_s: float
) -> list[tuple[float, int, str]]:
    """What a file holds of a family's `frames`: those of a phase, and when their connections came and went in it."""
    connections = {frame.connection for frame in frames}
    found = [(frame.at_s, frame.connection, frame.data.hex()) for frame in frames]
    found += [(at_s, number, OPENED) for number, at_s in proxy.opened.items() if number in connections]
    found += [(at_s, number, CLOSED) for number, at_s in proxy.closed.items() if number in connections]
    return [((at_s - began_s) * 1e3, *rest) for at_s, *rest in sorted(found) if first_s <= at_s < last_s]  # type: ignore[misc]


def of_family(frames: Sequence[Frame], family: str) -> list[Frame]:
    """Its members' requests, by the client ids that they have."""

    def is_its(frame: Frame) -> bool:
        size = int.from_bytes(frame.data[8:10], "big", signed=True)
        return frame.data[10 : 10 + max(size, 0)].startswith(f"{family}-".encode())

    return [frame for frame in frames if frame.direction == "request" and is_its(frame)]


def write_all(proxy: RecordingProxy, families: Sequence[Family], broker: str, began_s: float, out: Path) -> None:
    """A file for each family and phase."""
    frames = list(proxy.frames)
    for family in families:
        mine = of_family(frames, family.name)
        for phase, (first_s, last_s) in zip(PHASES, itertools.pairwise(family.marks), strict=True):
            lines = lines_of(proxy, mine, began_s, first_s, last_s)
            origin = {
                "client": FAMILIES[family.name],
                "phase": phase,
                "broker": broker,
                "recorded": datetime.date.today().isoformat(),
                "began_ms": round((first_s - began_s) * 1e3),
                "ended_ms": round((last_s - began_s) * 1e3),
            }
            path = path_of(family.name, phase, out)
            write(path, origin, lines)
            print(f"{path.name}: {len(lines)} lines, {path.stat().st_size} bytes")


def record(
    broker: str, target: tuple[str, int], port: int, steady_s: float, out: Path, told: Callable[[str, float], None]
) -> None:
    """All families at once, against the broker at `target`, which advertises `port`. `told` hears of phases' begins."""
    bootstrap = f"{HOST}:{port}"
    families = [Family(name, command, bootstrap) for name, command in commands().items()]
    with RecordingProxy(HOST, port, *target) as proxy, producing(bootstrap):
        began_s = time.monotonic()
        told("began", began_s)
        threads = [threading.Thread(target=family.live, args=(steady_s,), daemon=True) for family in families]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for family in families:
            if family.failure is not None:
                raise RuntimeError(f"{family.name} failed") from family.failure
    write_all(proxy, families, broker, began_s, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", help="HOST:PORT of one that runs; without it Apache Kafka is started")
    parser.add_argument("--proxy-port", type=int, help="which that broker advertises")
    parser.add_argument("--steady-s", type=float, default=600.0)
    parser.add_argument("--out", type=Path, default=TRAFFIC)
    chosen = parser.parse_args()

    def told(what: str, at_s: float) -> None:
        print(f"{what} at {at_s:.1f}", flush=True)

    if chosen.broker:
        host, _, port = chosen.broker.rpartition(":")
        record(chosen.broker, (host, int(port)), chosen.proxy_port, chosen.steady_s, chosen.out, told)
        return
    settings, port = {"num.partitions": str(PARTITIONS)}, free_port()
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(kafka_libs(), Path(directory), settings, advertised_port=port) as kafka,
    ):
        kind = f"Apache Kafka {KAFKA_VERSION}"
        record(kind, (kafka.host, kafka.port), port, chosen.steady_s, chosen.out, told)


if __name__ == "__main__":
    main()
