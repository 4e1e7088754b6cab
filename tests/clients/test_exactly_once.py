"""Exactly-once read-process-write programs, killed with SIGKILL again and again, and so is the daemon under them.

Two instances share a group; each has its transactional id. Whatever dies is started again. A read_committed consumer of
what they wrote must count each record once: nothing lost, nothing twice.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.daemon import Daemon, running
from tests.reference.broker import ReferenceUnavailable, kafka_libs
from tests.server.workers.processes import kill_worker

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]

PROGRAMS = Path(__file__).parent / "exactly_once"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "num.partitions": "3",
}
RECORDS = 2_000
PARTITIONS = 3
KILLS = 10
DEADLINE_S = 1_000.0
RECONNECT_MS = 1_000
"""A killed node is back in seconds. kafka-python itself waits up to 30 s, as long as it looks for ends."""


def unavailable(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"skipped: needs {reason}")


def confluent(directory: Path) -> list[str]:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        unavailable("confluent-kafka (pip install '.[clients]')")
    return [sys.executable, str(PROGRAMS / "confluent_program.py")]


def java(directory: Path) -> list[str]:
    compiler = shutil.which("javac")
    if compiler is None:
        unavailable("a JDK")
    assert compiler is not None
    try:
        libs = kafka_libs()
    except ReferenceUnavailable as missing:
        unavailable(str(missing))
    classpath = f"{libs}/*"
    command = [compiler, "-cp", classpath, "-d", str(directory), str(PROGRAMS / "ExactlyOnce.java")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", f"{directory}:{classpath}", "ExactlyOnce"]


@dataclass
class Program:
    """One instance, started again whenever it ends."""

    command: list[str]
    output: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def keep_alive(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.start()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Callable[[list[str], Daemon, str], list[Program]]]:
    started: list[Program] = []

    def start(command: list[str], daemon: Daemon, protocol: str) -> list[Program]:
        for number in range(2):
            arguments = [daemon.bootstrap, "workers", f"worker-{number}", "in", "out", protocol]
            started.append(Program([*command, *arguments], tmp_path / f"program-{number}.txt"))
            started[-1].start()
        return started

    yield start
    for program in started:
        program.kill()


# A run plays each client by one protocol, and the next commit's by the other one.
@pytest.mark.parametrize(
    ("client", "protocol"), [(confluent, "classic"), (confluent, "consumer"), (java, "consumer"), (java, "classic")]
)
def test_each_record_is_counted_once(
    request: pytest.FixtureRequest,
    client: Callable[[Path], list[str]],
    protocol: str,
    tmp_path: Path,
    programs: Callable[[list[str], Daemon, str], list[Program]],
) -> None:
    chance = random.Random(client.__name__)
    (tmp_path / "classes").mkdir()
    command = client(tmp_path / "classes")
    workers = request.config.getoption("--workers")
    victims = ["daemon", "program"] if workers == 1 else ["daemon", "program", "worker"]
    with running(tmp_path / "daemon", SETTINGS, workers=workers) as daemon:
        values = [b"record-%05d" % number for number in range(RECORDS)]
        # What there is to do comes bit by bit: it is not done before each of the victims has died.
        portions = [values[number :: len(victims) + 1] for number in range(len(victims) + 1)]
        write(daemon, portions.pop())
        running_programs = programs(command, daemon, protocol)
        kills = Counter[str]()
        deadline_s = time.monotonic() + DEADLINE_S
        while (written := committed_ends(daemon)) < RECORDS and time.monotonic() < deadline_s:
            time.sleep(chance.uniform(0.3, 1.0))
            for program in running_programs:
                program.keep_alive()
            # Not before there is something to lose, and not so often that nothing is ever done.
            if written == 0 or kills.total() >= KILLS:
                continue
            # Each of them once, then as it comes.
            killed = kills.total()
            victim = victims[killed] if killed < len(victims) else chance.choice(victims)
            kills[victim] += 1
            if victim == "worker":
                # In turn: the supervisor gives up a worker that dies six times in a row.
                kill_worker(daemon, kills[victim] % workers)
            elif victim == "daemon":
                daemon.kill()
                time.sleep(chance.uniform(0, 0.5))
                daemon.start()
            else:
                chance.choice(running_programs).kill()
            if portions:
                write(daemon, portions.pop())
        told = "\n".join(program.output.read_text()[-2_000:] for program in running_programs)
        counted = read_committed(daemon)
        wrong = {value: counted[value] for value in values if counted[value] != 1}
        assert not wrong, f"{len(wrong)} records were not counted once; {kills=}\n{told}"
        assert sum(counted.values()) == RECORDS
        assert set(kills) == set(victims)
        for program in running_programs:
            program.kill()
        print(f"\n{client.__name__}, {protocol}: {dict(kills)} kills, {sum(p.starts for p in running_programs)} starts")


def write(daemon: Daemon, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, reconnect_backoff_max_ms=RECONNECT_MS)
    for number, value in enumerate(values):
        producer.send("in", value, partition=number % PARTITIONS)
    producer.send("out", b"", partition=0)  # creates the topic; it counts for nothing
    producer.flush(timeout=60)
    producer.close()


def reader(daemon: Daemon) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=daemon.bootstrap,
        reconnect_backoff_max_ms=RECONNECT_MS,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=2_000,
    )
    consumer.assign([TopicPartition("out", index) for index in range(PARTITIONS)])
    return consumer


def committed_ends(daemon: Daemon) -> int:
    """How many different records a read_committed consumer finds now."""
    return len([value for value in read_committed(daemon) if value])


def read_committed(daemon: Daemon) -> Counter[bytes]:
    """Every record of the output that is committed."""
    consumer = reader(daemon)
    try:
        partitions = consumer.assignment()
        ends = consumer.end_offsets(partitions, timeout_ms=120_000)
        consumer.seek_to_beginning()
        found: Counter[bytes] = Counter()
        deadline_s = time.monotonic() + 120
        while any(consumer.position(each) < ends[each] for each in partitions) and time.monotonic() < deadline_s:
            for records in consumer.poll(timeout_ms=200, max_records=5_000).values():
                found.update(record.value for record in records)
        assert all(consumer.position(each) >= ends[each] for each in partitions), "the end is not reached"
        found.pop(b"", None)
        return found
    finally:
        consumer.close()
