"""Record stories: play them against Apache Kafka and write down what it answers.

    python -m tests.reference.record [STORY ...]          all stories that are not slow, or those named
    python -m tests.reference.record --as 4.3 [STORY ...] an earlier release's answers, where they differ
    python -m tests.reference.record --ours [STORY ...]   our answers, where a story says that they differ and why

Stories that want the same settings share a broker and are played at the same time. Needs Java 17 and Maven, except
for `--ours`.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from coordinatord.testing.conform import suite
from coordinatord.testing.conform.player import Player, PlayError
from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.testing.conform.selection import to_start_with
from coordinatord.testing.conform.story import EARLIER, Step, Story, all_stories
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.errors import ErrorCode
from tests.reference import differences
from tests.reference.broker import (
    EARLIER_VERSION,
    KAFKA_VERSION,
    START_TIMEOUT_S,
    KafkaBroker,
    kafka_libs,
    running_broker,
)

AT_ONCE = 24
TRANSACTION = 1
SETTINGS: Mapping[str, str] = {
    # Not waiting for the first rebalance is the default of stories, since most are not about it.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
"""What every story's broker has, ours and Kafka's; a story's own settings come on top."""


def by_settings(stories: list[Story]) -> list[tuple[dict[str, str], list[Story]]]:
    """Stories that can share a broker, with its settings."""
    shared: dict[tuple[str, tuple[tuple[str, str], ...]], list[Story]] = defaultdict(list)
    for story in stories:
        key = story.name if story.alone else ""
        shared[key, tuple(sorted({**SETTINGS, **to_start_with(story)}.items()))].append(story)
    return [(dict(settings), members) for (_, settings), members in sorted(shared.items())]


async def play_on(broker: KafkaBroker, stories: list[Story]) -> list[list[list[str]]]:
    """Play stories on a running broker, many at a time. A story that cannot be played to its end has no results."""

    async def connect(client_id: str) -> RawClient:
        return await RawClient.connect(broker.host, broker.port, client_id)

    await coordinator_ready(broker)
    turns = asyncio.Semaphore(AT_ONCE)

    async def play(story: Story) -> list[list[str]]:
        async with turns:
            try:
                return await Player(story, connect, broker.host, broker.port).play()
            except PlayError as error:
                print(error, file=sys.stderr)
                return []

    return await asyncio.gather(*(play(story) for story in stories))


async def coordinator_ready(broker: KafkaBroker, within_s: float = START_TIMEOUT_S) -> None:
    """Kafka makes a coordinator's topic when it is first asked for one, then loads it; both take a moment.

    It is ready when it knows that there is no such group, and gives a producer id to a transactional id. There is one
    partition of each topic, so one name speaks for all.
    """
    client = await RawClient.connect(broker.host, broker.port)
    deadline_s = time.monotonic() + within_s
    while True:
        found = await client.ask(FindCoordinatorRequest("warm-up"), 0)
        known = await client.ask(HeartbeatRequest("warm-up", 1, "nobody"), 0)
        await client.ask(FindCoordinatorRequest("warm-up", TRANSACTION), 1)
        given = await client.ask(InitProducerIdRequest("warm-up", 1000), 0)
        errors = (found.error_code, known.error_code, given.error_code)
        if errors == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE):
            break
        assert time.monotonic() < deadline_s, f"not ready after {within_s} s: {errors}"
        await asyncio.sleep(0.1)
    client.close()


def play_on_kafka(stories: list[Story], version: str = KAFKA_VERSION) -> dict[str, list[list[str]]]:
    """What Kafka answers: results by story name."""
    found, libs = {}, kafka_libs(version)
    for settings, members in by_settings(stories):
        with tempfile.TemporaryDirectory() as directory, running_broker(libs, Path(directory), settings) as broker:
            results = asyncio.run(play_on(broker, members))
            found |= {story.name: result for story, result in zip(members, results, strict=True)}
    return found


async def play_in_process(story: Story, directory: Path, **others: str) -> list[list[str]]:
    """What our daemon answers, on a virtual clock, with `others` of its settings; to be run by `in_process.run`."""
    from tests.reference.in_process import HOST, running_in_process  # recording Kafka does without our daemon

    async with running_in_process(directory, {**SETTINGS, **story.settings, **others}) as ours:
        ours.daemon.coordinator.partitions.ensure()  # a story begins when somebody has looked for a group
        return await Player(story, ours.connect, HOST, ours.port).play()


def play_on_ours(stories: list[Story]) -> dict[str, list[list[str]]]:
    """What our daemon answers: results by story name."""
    from tests.reference.in_process import run

    found = {}
    for story in stories:
        with tempfile.TemporaryDirectory() as directory:
            found[story.name] = run(play_in_process(story, Path(directory)))
    return found


def but_for_a_second(story: Story, results: list[list[str]]) -> list[list[str]]:
    """`results`, but as recorded where they differ in nothing but a second: a busy machine is late now and then."""
    steps = [step for step in story.steps if step.is_answered]
    return [suite.but_for_a_second(step.recorded, result) for step, result in zip(steps, results, strict=True)]


def with_earlier(story: Story, results: list[list[str]]) -> list[list[str]]:
    """Set the earlier release's answers in the story where they differ; return the answers of the usual release."""
    steps: list[Step] = [step for step in story.steps if step.is_answered]
    for step, result in zip(steps, results, strict=True):
        step.earlier = {EARLIER[0]: result} if result != step.recorded else {}
    return [step.recorded for step in steps]


def main(arguments: list[str]) -> None:
    ours, earlier = "--ours" in arguments, "--as" in arguments
    names = [argument for argument in arguments if argument not in ("--ours", "--as", *EARLIER)]
    stories = [story for story in all_stories() if story.name in names or not (names or story.slow)]
    unknown = set(names) - {story.name for story in stories}
    if unknown:
        raise SystemExit(f"no such story: {', '.join(sorted(unknown))}")
    with contextlib.redirect_stdout(io.StringIO()):  # our daemon's log
        version = EARLIER_VERSION if earlier else KAFKA_VERSION
        played = play_on_ours(stories) if ours else play_on_kafka(stories, version)
    for name, results in played.items():
        if not results:
            print(f"not played to its end: {name}")
            continue
        story = next(story for story in stories if story.name == name)
        if ours:  # only the answers that a story says are ours
            steps = [step for step in story.steps if step.is_answered]
            results = [result if step.reason else step.recorded for step, result in zip(steps, results, strict=True)]
        elif earlier:
            results = with_earlier(story, but_for_a_second(story, results))
        else:
            results = but_for_a_second(story, results)
        text = story.rendered(results, ours)
        changed = text != story.path.read_text()
        story.path.write_text(text)
        print(f"{'changed' if changed else 'as before'}: {name}")
    differences.main()


if __name__ == "__main__":
    main(sys.argv[1:])
