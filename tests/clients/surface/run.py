"""Both brokers, each behind a counting proxy, and a program's run on them.

python -m tests.clients.surface.run [--all] kafka-python        prints what differs and is not listed, or all
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import CoordinatorNotAvailableError, NoError

from coordinatord.monitoring.admin.topics import TOPIC_RESOURCE
from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.brokers import QUICK_SETTINGS
from tests.clients.families.program import Command
from tests.clients.surface.compare import problems, rows, shown
from tests.clients.surface.counting_proxy import HOST, CountingProxy, Seen
from tests.clients.surface.differences import KNOWN
from tests.clients.surface.families import FAMILIES
from tests.clients.surface.outcome import LOCAL, Outcome, parsed
from tests.daemon import Daemon, free_port, running
from tests.reference.broker import KafkaBroker, kafka_libs, running_broker
from tests.support.waiting import PATIENCE_S, wait_until

SETTINGS = {
    **QUICK_SETTINGS,
    "log.retention.ms": "-1",  # programs write records of 1970
}
PROGRAM_TIMEOUT_S = 600
MARKED = "first"
"""The topic whose setting tells how far Kafka's broker is with what its controller has acknowledged."""
MARKER = "retention.ms"
FURTHER_RUNS = 2
SHOWN_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class Side:
    """A broker and the proxy that clients take it for."""

    name: str
    proxy: CountingProxy
    broker: KafkaBroker | Daemon

    def log_tail(self, characters: int) -> str:
        return self.broker.log_tail(characters)


@dataclass(frozen=True, slots=True)
class Played:
    """What a program said, and which requests came while it was in calls that reach no broker."""

    outcomes: list[Outcome]
    strays: dict[str, list[Seen]]


class CaughtUp:
    """Waits until Kafka's broker has applied all that its controller has acknowledged so far.

    It applies changes in their order, and tells of a setting before it is done with the rest of the same change: so
    when it tells of the second of two further settings, it is done with everything before the first.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._values = itertools.count(10**12)

    async def __call__(self) -> None:
        client = await RawClient.connect(HOST, self._port)
        with contextlib.closing(client), contextlib.suppress(ConnectionError):
            for value in itertools.islice(map(str, self._values), 2):
                change = AlterConfigsResource(TOPIC_RESOURCE, MARKED, [AlterableConfig(MARKER, 0, value)])
                made = await client.ask(IncrementalAlterConfigsRequest([change]), 1)
                if made.responses[0].error_code:  # there is no such topic yet
                    return
                asked = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, MARKED, [MARKER])])
                while True:
                    if (await client.ask(asked, 1)).results[0].configs[0].value == value:
                        break
                    await asyncio.sleep(0.01)


@contextlib.contextmanager
def kafka_side(libs: Path, directory: Path) -> Iterator[Side]:
    port = free_port()
    with (
        running_broker(libs, directory, SETTINGS, advertised_port=port) as kafka,
        CountingProxy(port, kafka.port, settle=CaughtUp(kafka.port)) as proxy,
    ):
        _make_internal_topics(proxy.bootstrap)
        yield Side("Kafka", proxy, kafka)


@contextlib.contextmanager
def our_side(directory: Path) -> Iterator[Side]:
    port = free_port()
    with (
        running(directory, SETTINGS, ["--advertise", f"{HOST}:{port}"]) as daemon,
        CountingProxy(port, daemon.port) as proxy,
    ):
        yield Side("coordinatord", proxy, daemon)


def _make_internal_topics(bootstrap: str) -> None:
    """Kafka makes them when it is first asked for a coordinator, and until then answers as if it were starting."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="first")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(MARKED, b"value").get(PATIENCE_S)
    producer.commit_transaction()
    producer.close(timeout=PATIENCE_S)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    committed = {TopicPartition(MARKED, 0): OffsetAndMetadata(0, "", -1)}

    def altered() -> bool:
        try:
            return set(admin.alter_group_offsets("first", committed).values()) == {NoError}
        except CoordinatorNotAvailableError:
            return False

    wait_until(altered, "offsets of a group")
    admin.close()


def play(command: Command, side: Side) -> Played:
    """Run a program to its end."""
    prefix = f"surface-{secrets.token_hex(4)}"
    done = subprocess.run(
        [*command.words, f"bootstrap={side.proxy.bootstrap}", f"prefix={prefix}"],
        env={**os.environ, **command.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )
    said = (done.stdout + done.stderr)[-SHOWN_CHARACTERS:]
    assert done.returncode == 0, f"on {side.name} it ended with {done.returncode}:\n{said}"
    outcomes = [parsed(line, prefix) for line in done.stdout.splitlines() if line.startswith("{")]
    strays = {
        each.key: seen
        for each in outcomes
        if each.outcome == LOCAL and each.began_s is not None and each.ended_s is not None
        if (seen := side.proxy.between(prefix, each.began_s, each.ended_s))
    }
    return Played(outcomes, strays)


def play_both(command: Command, kafka: Side, ours: Side) -> tuple[Played, Played]:
    """Run a program on both brokers at the same time."""
    with ThreadPoolExecutor(2) as pool:
        on_kafka, on_ours = (pool.submit(play, command, side) for side in (kafka, ours))
        return on_kafka.result(), on_ours.result()


def reached(command: Command, kafka: Played, ours: Played, side: Side) -> list[str]:
    """Calls that are said to reach no broker, and reach one. A request in some of the runs may have another cause."""
    keys = kafka.strays.keys() & ours.strays.keys()
    for _ in range(FURTHER_RUNS if keys else 0):
        keys &= play(command, side).strays.keys()
    asked = {key: [seen.api_key for seen in kafka.strays[key]] for key in sorted(keys)}
    return [f"{key}: said to reach no broker, but API {each} was asked" for key, each in asked.items()]


def main(names: Sequence[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        kafka_side(kafka_libs(), Path(directory) / "kafka") as kafka,
        our_side(Path(directory) / "ours") as ours,
    ):
        for family in FAMILIES:
            if family.name not in names:
                continue
            command = family.command()
            on_kafka, on_ours = play_both(command, kafka, ours)
            known = KNOWN[family.name]
            compared = rows(on_kafka.outcomes, on_ours.outcomes, known)
            print(f"{family.name}: {len(compared)} calls")
            for row in compared if "--all" in names else ():
                print(f"{row.key}\n  Kafka: {shown(row.kafka)}\n  ours:  {shown(row.ours)}")
            print("\n".join(problems(compared, known) + reached(command, on_kafka, on_ours, ours)))


if __name__ == "__main__":
    main(sys.argv[1:])
