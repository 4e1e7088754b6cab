"""Play random programs on Apache Kafka and on our daemon, and find where their stories differ.

    python -m tests.reference.random_programs                     a thousand programs of the classic protocol
    python -m tests.reference.consumer_programs                   a thousand of both protocols
    python -m tests.reference.consumer_programs --seed 17         one of them; a difference is shortened
    python -m tests.reference.random_programs --first 5000 --count 200 --minutes 2
    python -m tests.reference.random_programs --record            record the thousand that the tests replay

One broker of Kafka plays many programs at a time, since they mostly wait; our daemon plays them one after the other on
a virtual clock. Needs Java 17 and Maven.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import io
import itertools
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.reference.broker import KafkaBroker, kafka_libs, running_broker
from tests.reference.in_process import HOST, InProcess, run, running_in_process
from tests.reference.random_player import Choices, Connect, Played, Told, Wires
from tests.reference.random_steps import Program
from tests.reference.record import coordinator_ready

READY_S = 2
"""Until Kafka's group coordinator knows of new topics, too."""
AGAIN_S = 600
"""The time for programs that differ."""
SEEDS = range(1, 1001)
"""Of the recorded programs."""

ONE_THREAD: Mapping[str, str] = {"num.network.threads": "1", "num.io.threads": "1"}
"""Kafka then reads requests and sends answers in the order in which they come, on all connections together."""
NO_EXPIRY: Mapping[str, str] = {"offsets.retention.check.interval.ms": "2147483647"}
"""Else a group that is empty is dead from the tenth minute of a broker on, whichever program is played then."""
NO_LEDGER: Mapping[str, str] = {"rebalance.ledger.topic.enable": "false"}
"""Else our daemon makes a topic of its own, with an id that was meant for another."""

RUNS = itertools.count(1)
Chosen = Callable[[Any, Choices], AbstractContextManager[object]]


@dataclass(frozen=True)
class Vocabulary:
    """A kind of random programs. `settings` are those of brokers, by policy; the `player` makes requests of a program's
    steps. `at_once` is the number of programs that Kafka plays at a time, and that of each further attempt with those
    that a busy machine was late for. A program that differs is played up to `attempts` times, until Kafka's story is
    ours: its choices may differ from run to run. Within `choosing` our daemon can be made to choose as Kafka.
    """

    name: str
    program: Callable[[int], Program]
    policy: Callable[[int], str]
    settings: Mapping[str, Mapping[str, str]]
    topics: Mapping[str, int]
    player: Callable[..., Any]
    choosing: Callable[[InProcess, Mapping[str, bytes]], AbstractContextManager[Chosen]]
    at_once: tuple[int, ...]
    attempts: int
    quick_seeds: range

    @property
    def recordings(self) -> Path:
        """What Kafka made of a thousand programs."""
        return Path(__file__).parent / f"{self.name}_recordings.json.xz"

    @property
    def quick_recordings(self) -> Path:
        """The first of them, for tests that do not read all."""
        return Path(__file__).parent / f"{self.name}_recordings_quick.json.xz"


class Stories(NamedTuple):
    """Programs with Kafka's stories, and the ids of the topics that all of them read."""

    told: list[tuple[Program, Played]]
    topic_ids: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Difference:
    """Both stories of a program for which they are not the same."""

    program: Program
    settings: Mapping[str, str]
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
        """As a story file: Kafka's answers, and ours at the end, where they begin to differ."""
        out = [f"# Found by chance: program {self.program.seed}.", ""]
        out += [f"setting {name} = {value}" for name, value in self.settings.items()]
        for kafka, ours in zip(self.kafka.story, self.ours.story, strict=False):
            out += ["", *kafka.lines()]
            if kafka != ours:
                commands = [] if kafka.command == ours.command else [ours.command]
                out += ["---- ours: to be explained, or to be mended", *commands, *ours.answer]
                break
        return "\n".join(out) + "\n"


@dataclass(slots=True)
class Outcome:
    """Of many programs: nothing can be said of those that are `left_out`, of those that are `unsteady` Kafka itself has
    told different stories, `late` were not played in time.
    """

    played: int = 0
    late: int = 0
    requests: int = 0
    left_out: set[int] = field(default_factory=set)
    unsteady: set[int] = field(default_factory=set)
    found: list[Difference] = field(default_factory=list)
    stories: dict[str, Stories] = field(default_factory=dict)


def run_name(it: Program) -> str:
    """Of one run; all names have the same length."""
    return f"p{it.seed:06}-{next(RUNS):05}"


async def ready_topics(connect: Connect, topics: Mapping[str, int]) -> dict[str, bytes]:
    """Make the topics that all programs share unless they are there; their ids."""
    client = await connect("setup")
    wanted = [CreatableTopic(name, partitions, 1) for name, partitions in topics.items()]
    created = await client.ask(CreateTopicsRequest(wanted), 7)
    for _ in range(200):
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in topics], False)
        described = await client.ask(asked, 12)
        if all(topic.error_code == ErrorCode.NONE for topic in described.topics):
            break
        await asyncio.sleep(0.1)
    for key_type in (0, 1):
        await client.ask(FindCoordinatorRequest("warm-up", key_type), 1)
    client.close()
    await asyncio.sleep(READY_S)
    by_name = {topic.name: topic.topic_id for topic in described.topics}
    assert all(by_name[name] != bytes(16) for name in topics), created
    return by_name


async def on_kafka(
    kind: Vocabulary, broker: KafkaBroker, programs: list[Program], until_s: float, at_once: int
) -> Stories:
    """What Kafka makes of them, but for those that it had no time for."""

    async def connect(client_id: str) -> RawClient:
        return await RawClient.connect(broker.host, broker.port, client_id)

    async def play(number: int, it: Program) -> Played | None:
        async with turns:
            if time.monotonic() > until_s:
                return None
            # Those that begin together shall not act together.
            await asyncio.sleep(number % 35 / 10 if number < at_once else 0)
            player = kind.player(it, connect, broker.host, broker.port, run_name(it))
            played: Played = await player.play(topic_ids)
        return played if played.is_comparable else None

    await coordinator_ready(broker)
    topic_ids = await ready_topics(connect, kind.topics)
    turns = asyncio.Semaphore(at_once)
    stories = await asyncio.gather(*(play(number, it) for number, it in enumerate(programs)))
    return Stories([(it, story) for it, story in zip(programs, stories, strict=True) if story is not None], topic_ids)


async def on_ours(kind: Vocabulary, stories: Stories, settings: Mapping[str, str], directory: Path) -> list[Played]:
    """What our daemon makes of them, beginning with Kafka's choices; to be run by `in_process.run`."""
    played = []
    async with running_in_process(directory, {**settings, **NO_EXPIRY, **NO_LEDGER}) as ours:
        with kind.choosing(ours, stories.topic_ids) as chosen:
            topic_ids = await ready_topics(ours.connect, kind.topics)
            for it, kafka in stories.told:
                player: Wires = kind.player(it, ours.connect, HOST, ours.port, run_name(it))
                with chosen(player, kafka.choices):
                    played.append(await player.play(topic_ids))
    return played


def differences(
    kind: Vocabulary, stories: Stories, settings: Mapping[str, str], left_out: set[int] | None = None
) -> list[Difference]:
    """Where we do not do what Kafka did. `left_out` takes the seeds of programs of which that cannot be said."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        played = run(on_ours(kind, stories, settings, Path(directory)))
    found = []
    for (it, kafka), ours in zip(stories.told, played, strict=True):
        if kafka.story == ours.story:
            continue
        if ours.is_comparable:
            found.append(Difference(it, settings, kafka, ours))
        elif left_out is not None:
            left_out.add(it.seed)
    return found


def compare(kind: Vocabulary, libs: Path, programs: list[Program], minutes: float, shrink_first: int = 3) -> Outcome:
    """Play all of them on both. The first few differences are shortened."""
    outcome = Outcome()
    until_s = time.monotonic() + minutes * 60
    for policy, settings in kind.settings.items():
        chosen = [it for it in programs if kind.policy(it.seed) == policy]
        if not chosen:
            continue
        with (
            tempfile.TemporaryDirectory() as directory,
            running_broker(libs, Path(directory), {**settings, **ONE_THREAD, **NO_EXPIRY}) as broker,
        ):
            for one in _compare(kind, broker, chosen, policy, until_s, outcome):
                is_short = len(outcome.found) >= shrink_first
                outcome.found.append(one if is_short else shrink(kind, broker, one))
    return outcome


def _compare(
    kind: Vocabulary, broker: KafkaBroker, programs: list[Program], policy: str, until_s: float, outcome: Outcome
) -> list[Difference]:
    """The differences; the outcome gets what Kafka has told, of what it tells in turns the story that is ours, too."""
    told: dict[int, tuple[Program, Played]] = {}
    topic_ids: Mapping[str, bytes] = {}
    settings = kind.settings[policy]
    for at_once in kind.at_once:
        late = [it for it in programs if it.seed not in told]
        if late and (not told or time.monotonic() < until_s):
            say(f"{policy}: {len(late)} programs of {len(programs)} to be played, {at_once} at once")
            stories = asyncio.run(on_kafka(kind, broker, late, until_s, at_once))
            told |= {it.seed: (it, story) for it, story in stories.told}
            topic_ids = stories.topic_ids
    outcome.played += len(told)
    outcome.late += len(programs) - len(told)
    outcome.requests += sum(len(story.story) for _, story in told.values())
    found = differences(kind, Stories([*told.values()], topic_ids), settings, outcome.left_out)
    for _ in range(kind.attempts - 1):
        if found:
            say(f"{len(found)} differ: {[one.program.seed for one in found]}; once more on Kafka")
            again, _ = once_more = _again(kind, broker, [one.program for one in found])
            outcome.unsteady |= {it.seed for it, story in again if story.story != told[it.seed][1].story}
            told |= {it.seed: (it, story) for it, story in again}
            played = {it.seed for it, _ in again}
            missed = [one for one in found if one.program.seed not in played]
            found = missed + differences(kind, once_more, settings, outcome.left_out)
    outcome.stories[policy] = Stories([told[seed] for seed in sorted(told)], topic_ids)
    return found


def _again(kind: Vocabulary, broker: KafkaBroker, programs: list[Program]) -> Stories:
    return asyncio.run(on_kafka(kind, broker, programs, time.monotonic() + AGAIN_S, kind.at_once[1]))


def shorter(it: Program) -> Iterator[Program]:
    """The program without some of its steps: halves, quarters, ... and single ones."""
    size = len(it.steps) // 2
    while size:
        for start in range(0, len(it.steps), size):
            yield replace(it, steps=it.steps[:start] + it.steps[start + size :])
        size = size // 2 if size > 1 else 0


def shrink(kind: Vocabulary, broker: KafkaBroker, one: Difference, rounds: int = 12) -> Difference:
    """Leave out steps for as long as the stories still differ; all candidates of a round are played at once."""
    for _ in range(rounds):
        found = differences(kind, _again(kind, broker, list(shorter(one.program))), one.settings)
        if not found:
            break
        one = min(found, key=lambda each: len(each.program.steps))
        say(f"program {one.program.seed}: {len(one.program.steps)} steps still differ")
    return one


def say(what: str) -> None:
    """What takes minutes says where it is."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


# Recordings: programs and Kafka's stories. The steps are there, too, so they outlive other ways to draw them.


def write(stories: Mapping[str, Stories], path: Path, seeds: range) -> None:
    """What Kafka has told of these programs, by policy."""
    data = {
        policy: {
            "topic_ids": {name: topic_id.hex() for name, topic_id in one.topic_ids.items()},
            "programs": [
                {
                    **asdict(it),
                    **asdict(played.choices),
                    "story": [[told.command, *told.answer] for told in played.story],
                }
                for it, played in one.told
                if it.seed in seeds
            ],
        }
        for policy, one in stories.items()
    }
    path.write_bytes(lzma.compress(json.dumps(data, ensure_ascii=False).encode(), preset=9))


def recordings(path: Path) -> dict[str, Stories]:
    """By policy, what `write` has written."""
    found = {}
    for policy, one in json.loads(lzma.decompress(path.read_bytes())).items():
        told = []
        for each in one["programs"]:
            story = [Told(command, answer) for command, *answer in each["story"]]
            choices = Choices(each["ids"], each["topic_ids"], each["leaders"], each["targets"])
            told.append((Program(each["seed"], each["seats"], each["steps"]), Played(story, choices)))
        found[policy] = Stories(told, {name: bytes.fromhex(text) for name, text in one["topic_ids"].items()})
    return found


def replayed(
    kind: Vocabulary, recorded: Mapping[str, Stories], seeds: Iterable[int], left_out: set[int] | None = None
) -> list[Difference]:
    """Where we do not do what Kafka did in the recorded programs of these seeds."""
    wanted = set(seeds)
    found = []
    for policy, (told, topic_ids) in recorded.items():
        chosen = Stories([(it, story) for it, story in told if it.seed in wanted], topic_ids)
        if chosen.told:
            found += differences(kind, chosen, kind.settings[policy], left_out)
    return found


def main(kind: Vocabulary, arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog=f"python -m tests.reference.{kind.name}_programs")
    options.add_argument("--seed", type=int, nargs="+", help="these programs alone")
    options.add_argument("--first", type=int, default=1, help="the first seed")
    options.add_argument("--count", type=int, default=1_000, help="how many programs")
    options.add_argument("--minutes", type=float, default=30, help="begin no program after that")
    options.add_argument("--shrink", type=int, default=3, help="make that many differences small")
    options.add_argument("--record", action="store_true", help="record what Kafka tells of a thousand programs")
    given = options.parse_args(arguments)
    seeds = SEEDS if given.record else given.seed or range(given.first, given.first + given.count)
    began_s = time.monotonic()
    outcome = compare(kind, kafka_libs(), [kind.program(seed) for seed in seeds], given.minutes, given.shrink)
    if given.record:
        write(outcome.stories, kind.recordings, SEEDS)
        write(outcome.stories, kind.quick_recordings, kind.quick_seeds)
    print(report(kind, outcome))
    print(f"{outcome.played} programs, {outcome.requests} requests told, in {time.monotonic() - began_s:.0f} s")
    return 1 if outcome.found else 0


def report(kind: Vocabulary, outcome: Outcome) -> str:
    """What somebody needs who has to look into it."""
    out = []
    for one in outcome.found:
        out += [f"program {one.program.seed} differs", one.text(), "", "small, as a story:", one.story()]
        out += [f"repeat it: python -m tests.reference.{kind.name}_programs --seed {one.program.seed}", ""]
    out += [f"{len(outcome.found)} differ: {' '.join(str(one.program.seed) for one in outcome.found)}"]
    out += [f"Kafka has told two stories of: {sorted(outcome.unsteady)}; not in time, or no time left: {outcome.late}"]
    out += [f"left out, since nothing can be said of them: {sorted(outcome.left_out)}"]
    return "\n".join(out)
