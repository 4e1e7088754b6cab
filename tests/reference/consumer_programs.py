"""Play random programs of both protocols on Apache Kafka and on our daemon, and find where their stories differ.

    python -m tests.reference.consumer_programs                        a thousand of them
    python -m tests.reference.consumer_programs --seed 17              one of them; a difference is made small and told
    python -m tests.reference.consumer_programs --first 5000 --count 200
    python -m tests.reference.consumer_programs --record               record the thousand that CI replays
    python -m tests.reference.consumer_programs --exact                assignments count as our assignors make them

Nothing in these programs waits, so a thousand take minutes. Needs Java 17 and Maven.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import difflib
import io
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.reference.broker import KafkaBroker, kafka_libs
from tests.reference.consumer_choices import ConsumerChoices
from tests.reference.consumer_player import Choices, ConsumerPlayer, Played
from tests.reference.consumer_steps import SETTINGS, SHARED, Program, program
from tests.reference.in_process import HOST, run, running_in_process
from tests.reference.random_player import Connect, Told
from tests.reference.random_programs import NO_EXPIRY, broker_with, options_of, say, shrink
from tests.reference.record import coordinator_ready

AT_ONCE = 24
FEWER_AT_ONCE = 4
"""For those that differ, and those that a busy machine was late for."""
READY_S = 2
"""Until Kafka's group coordinator knows of new topics, too."""
ATTEMPTS = 3
"""How often Kafka may play a program that differs: on a busy machine it is late with what no answer waits for."""

NO_LEDGER: Mapping[str, str] = {"rebalance.ledger.topic.enable": "false"}
"""Else our daemon makes a topic of its own, with an id that was meant for another."""

RECORDINGS = Path(__file__).parent / "consumer_recordings.json.xz"
"""What Kafka made of a thousand programs."""
SEEDS = range(1, 1001)
QUICK_RECORDINGS = RECORDINGS.with_name("consumer_recordings_quick.json.xz")
"""The first of them, for tests that shall not read all."""
QUICK_SEEDS = range(1, 31)


@dataclass(frozen=True, slots=True)
class Difference:
    """Both stories of a program for which they are not the same."""

    program: Program
    kafka: Played
    ours: Played

    def text(self) -> str:
        """What both told alike at last, and where they part."""
        pairs = list(zip(self.kafka.story, self.ours.story, strict=False))
        at = next((number for number, (kafka, ours) in enumerate(pairs) if kafka != ours), len(pairs))
        out = [line for told in self.kafka.story[max(0, at - 3) : at] for line in ["", *told.lines()]]
        both = [
            played.story[at].lines() if at < len(played.story) else ["nothing more"]
            for played in (self.kafka, self.ours)
        ]
        out += ["", *difflib.unified_diff(*both, "Kafka", "coordinatord", lineterm="", n=12)]
        return "\n".join(out)

    def story(self) -> str:
        """All of it, until they part."""
        same = [kafka for kafka, ours in zip(self.kafka.story, self.ours.story, strict=False) if kafka == ours]
        return "\n".join(line for told in same for line in ["", *told.lines()]) + "\n" + self.text()


async def ready_topics(connect: Connect) -> dict[str, bytes]:
    """Make the topics that all programs share; their ids."""
    client = await connect("setup")
    topics = [CreatableTopic(name, partitions, 1) for name, partitions in SHARED.items()]
    created = await client.ask(CreateTopicsRequest(topics), 7)
    for _ in range(200):
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in SHARED], False)
        described = await client.ask(asked, 12)
        if all(topic.error_code == ErrorCode.NONE for topic in described.topics):
            break
        await asyncio.sleep(0.1)
    for key_type in (0, 1):
        await client.ask(FindCoordinatorRequest("warm-up", key_type), 1)
    client.close()
    await asyncio.sleep(READY_S)
    by_name = {topic.name: topic.topic_id for topic in described.topics}
    assert all(by_name[name] != bytes(16) for name in SHARED), created
    return by_name


class Numbers:
    """Each run has a name of its own; all are of the same length."""

    def __init__(self) -> None:
        self.runs = 0

    def name(self, it: Program) -> str:
        self.runs += 1
        return f"p{it.seed:06}-{self.runs:05}"


NUMBERS = Numbers()


async def on_kafka(
    broker: KafkaBroker, programs: list[Program], until_s: float, at_once: int = AT_ONCE
) -> tuple[list[Played | None], dict[str, bytes]]:
    """What Kafka makes of them, None for those that there was no time for; and the ids of the shared topics."""

    async def connect(client_id: str) -> RawClient:
        return await RawClient.connect(broker.host, broker.port, client_id)

    async def play(it: Program) -> Played | None:
        async with turns:
            if time.monotonic() > until_s:
                return None
            player = ConsumerPlayer(it, connect, broker.host, broker.port, NUMBERS.name(it))
            played = await player.play(topic_ids)
        return played if played.is_in_time else None

    await coordinator_ready(broker)
    topic_ids = await ready_topics(connect)
    turns = asyncio.Semaphore(at_once)
    return await asyncio.gather(*(play(it) for it in programs)), topic_ids


async def on_ours(
    programs: list[tuple[Program, Played]],
    topic_ids: Mapping[str, bytes],
    settings: Mapping[str, str],
    directory: Path,
    exact: bool,
) -> list[Played]:
    """What our daemon makes of them, beginning with Kafka's choices; to be run by `in_process.run`."""
    played = []
    choice = ConsumerChoices(exact)
    with choice.installed():
        async with running_in_process(directory, {**settings, **NO_EXPIRY, **NO_LEDGER}) as ours:
            ours.daemon.coordinator.new_id = choice.new_id
            choice.topic_ids = [topic_ids[name] for name in SHARED]
            found = await ready_topics(ours.connect)
            assert found == topic_ids
            for it, kafka in programs:
                player = ConsumerPlayer(it, ours.connect, HOST, ours.port, NUMBERS.name(it))
                choice.player, choice.choices = player, kafka.choices
                played.append(await player.play(found))
                choice.player = None
    return played


Told_ = list[tuple[Program, Played]]


def differences(
    pairs: Told_,
    topic_ids: Mapping[str, bytes],
    settings: Mapping[str, str],
    exact: bool = False,
    listed: set[int] | None = None,
) -> list[Difference]:
    """Where we do not do what Kafka did. `listed` takes the seeds of programs with a listed difference."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        ours = run(on_ours(pairs, topic_ids, settings, Path(directory), exact))
    both = list(zip(pairs, ours, strict=True))
    if listed is not None:
        listed |= {it.seed for (it, kafka), own in both if kafka.story != own.story and not own.is_comparable}
    return [Difference(it, kafka, own) for (it, kafka), own in both if kafka.story != own.story and own.is_comparable]


@dataclass(slots=True)
class Outcome:
    """Of many programs: of those that are `unsteady` Kafka itself has told different stories."""

    played: int = 0
    late: int = 0
    requests: int = 0
    unsteady: set[int] = field(default_factory=set)
    listed: set[int] = field(default_factory=set)
    found: list[Difference] = field(default_factory=list)
    told: dict[str, dict[int, tuple[Program, Played]]] = field(default_factory=dict)
    topic_ids: dict[str, dict[str, bytes]] = field(default_factory=dict)


def compare(libs: Path, programs: list[Program], minutes: float, shrink_first: int = 3, exact: bool = False) -> Outcome:
    """Play all of them on both. The first few differences are made small."""
    outcome = Outcome()
    until_s = time.monotonic() + minutes * 60
    for policy, settings in SETTINGS.items():
        chosen = [it for it in programs if it.policy == policy]
        if not chosen:
            continue
        with broker_with(libs, settings) as broker:
            found = _compare(broker, chosen, policy, until_s, outcome, exact)
            differing = partial(_differing, broker, settings, exact)
            for one in found:
                is_short = len(outcome.found) >= shrink_first
                outcome.found.append(one if is_short else shrink(one, differing, rounds=8))
    return outcome


def _differing(
    broker: KafkaBroker, settings: Mapping[str, str], exact: bool, candidates: list[Program]
) -> list[Difference]:
    stories, topic_ids = asyncio.run(on_kafka(broker, candidates, time.monotonic() + 600))
    pairs = [(it, story) for it, story in zip(candidates, stories, strict=True) if story is not None]
    return differences(pairs, topic_ids, settings, exact)


def _compare(
    broker: KafkaBroker, programs: list[Program], policy: str, until_s: float, outcome: Outcome, exact: bool
) -> list[Difference]:
    settings = SETTINGS[policy]
    stories, topic_ids = asyncio.run(on_kafka(broker, programs, until_s))
    told = {it.seed: (it, story) for it, story in zip(programs, stories, strict=True) if story is not None}
    for at_once in (FEWER_AT_ONCE, 1, 1):
        late = [it for it in programs if it.seed not in told]
        if not late or time.monotonic() >= until_s:
            break
        say(f"not in time: {len(late)} programs of {len(programs)}; again, {at_once} at once")
        stories, _ = asyncio.run(on_kafka(broker, late, until_s, at_once))
        told |= {it.seed: (it, story) for it, story in zip(late, stories, strict=True) if story is not None}
    outcome.played += len(told)
    outcome.late += len(programs) - len(told)
    outcome.requests += sum(len(story.story) for _, story in told.values())
    say(f"Kafka ({policy}) has played {len(told)} programs of {len(programs)}")
    found = differences(list(told.values()), topic_ids, settings, exact, outcome.listed)
    for _ in range(ATTEMPTS - 1):
        if not found:
            break
        say(f"{len(found)} differ: {[one.program.seed for one in found]}; once more on Kafka")
        again, _ = asyncio.run(on_kafka(broker, [one.program for one in found], time.monotonic() + 600, FEWER_AT_ONCE))
        once_more = [(one.program, story) for one, story in zip(found, again, strict=True) if story is not None]
        changed = {it.seed for it, story in once_more if story.story != told[it.seed][1].story}
        outcome.unsteady |= changed
        told |= {it.seed: (it, story) for it, story in once_more}
        found = [one for one in found if one.program.seed not in changed]
        others = [pair for pair in once_more if pair[0].seed in changed]
        found += differences(others, topic_ids, settings, exact, outcome.listed)
        if not changed:
            break
    outcome.told[policy], outcome.topic_ids[policy] = told, topic_ids
    return found


# Recordings


def as_record(it: Program, played: Played) -> dict[str, Any]:
    """A program and Kafka's story, for a file. The steps are there, too, so it outlives other ways to draw them."""
    choices = played.choices
    return {
        "seed": it.seed,
        "seats": it.seats,
        "steps": it.steps,
        "story": [[told.command, *told.answer] for told in played.story],
        "ids": choices.ids,
        "topic_ids": {number: base64.b64encode(one).decode() for number, one in choices.topic_ids.items()},
        "leaders": choices.leaders,
        "targets": choices.targets,
    }


def of_record(one: dict[str, Any]) -> tuple[Program, Played]:
    """What `as_record` has written."""
    ids, leaders, targets = ({int(k): v for k, v in one[name].items()} for name in ("ids", "leaders", "targets"))
    topic_ids = {int(k): base64.b64decode(v) for k, v in one["topic_ids"].items()}
    story = [Told(command, answer) for command, *answer in one["story"]]
    return Program(one["seed"], one["seats"], one["steps"]), Played(
        story, Choices(ids, topic_ids, leaders, targets), True
    )


def write(outcome: Outcome, path: Path, seeds: range) -> None:
    """What Kafka has told of programs, by policy."""
    data: dict[str, Any] = {
        policy: {
            "topic_ids": {name: base64.b64encode(one).decode() for name, one in outcome.topic_ids[policy].items()},
            "programs": [as_record(*told[seed]) for seed in sorted(told) if seed in seeds],
        }
        for policy, told in outcome.told.items()
    }
    path.write_bytes(lzma.compress(json.dumps(data, ensure_ascii=False).encode(), preset=9))


def recordings(path: Path) -> dict[str, tuple[Told_, dict[str, bytes]]]:
    """By policy: programs with Kafka's stories, and the ids of the shared topics."""
    data = json.loads(lzma.decompress(path.read_bytes()))
    return {
        policy: (
            [of_record(each) for each in one["programs"]],
            {name: base64.b64decode(text) for name, text in one["topic_ids"].items()},
        )
        for policy, one in data.items()
    }


def replayed(share: Iterable[int], path: Path = RECORDINGS, exact: bool = False) -> list[Difference]:
    """Where we do not do what Kafka did in the recorded programs of these seeds."""
    wanted = set(share)
    found = []
    for policy, (pairs, topic_ids) in recordings(path).items():
        chosen = [(it, story) for it, story in pairs if it.seed in wanted]
        if chosen:
            found += differences(chosen, topic_ids, SETTINGS[policy], exact)
    return found


def main(arguments: list[str]) -> int:
    options = options_of("consumer_programs")
    options.add_argument("--exact", action="store_true", help="our assignors' own results count")
    options.add_argument("--record", action="store_true", help="record what Kafka tells")
    given = options.parse_args(arguments)
    seeds = given.seed or range(given.first, given.first + given.count)
    began_s = time.monotonic()
    outcome = compare(kafka_libs(), [program(seed) for seed in seeds], given.minutes, given.shrink, given.exact)
    if given.record:
        write(outcome, RECORDINGS, SEEDS)
        write(outcome, QUICK_RECORDINGS, QUICK_SEEDS)
    print(report(outcome))
    print(f"{outcome.played} programs, {outcome.requests} steps told, in {time.monotonic() - began_s:.0f} s")
    return 1 if outcome.found else 0


def report(outcome: Outcome) -> str:
    """What somebody needs who has to look into it."""
    out = []
    for one in outcome.found:
        out += [f"program {one.program.seed} differs", one.text(), ""]
        out += [f"repeat it: python -m tests.reference.consumer_programs --seed {one.program.seed}", ""]
    out += [f"{len(outcome.found)} differ: {' '.join(str(one.program.seed) for one in outcome.found)}"]
    out += [f"with a listed difference: {sorted(outcome.listed)}"]
    out += [f"Kafka has told two stories of: {sorted(outcome.unsteady)}; not in time, or no time left: {outcome.late}"]
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
