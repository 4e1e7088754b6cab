"""Play random programs on Apache Kafka and on our daemon, and find where their stories differ.

    python -m tests.reference.random_programs                         a thousand of them
    python -m tests.reference.random_programs --seed 17               one of them; a difference is made small and told
    python -m tests.reference.random_programs --first 5000 --count 200 --minutes 2
    python -m tests.reference.random_programs --record                record the thousand that CI replays
    python -m tests.reference.random_programs --record --seed 17      some of them anew
    python -m tests.reference.random_programs --record-quick          the twenty that the quick tests replay

One broker of Kafka plays hundreds of programs at a time, since they mostly wait; our daemon plays them one after the
other on a virtual clock. Needs Java 17 and Maven.
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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from coordinatord.coordination.group.classic import step as classic
from coordinatord.coordination.group.events import TimedOut
from coordinatord.coordination.group.result import JOIN, SESSION, Result
from coordinatord.coordination.group.state import Group
from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.errors import ErrorCode
from tests.reference.broker import KafkaBroker, kafka_libs, running_broker
from tests.reference.in_process import HOST, InProcess, run, running_in_process
from tests.reference.leader_choice import LeaderChoice
from tests.reference.random_player import Connect, Played, RandomPlayer, Told
from tests.reference.random_steps import BURST_S, DELAYED, MARGIN_S, SETTINGS, TOPICS, Program, program
from tests.reference.record import coordinator_ready

AT_ONCE = 350
FEWER_AT_ONCE = 40
"""For those that a busy machine was late for."""
ATTEMPTS = 3
"""How often Kafka may play a program until it was in time."""
CHOICES = 12
"""How often Kafka plays a program that differs, until it tells the story that is ours: it may have chosen a leader that
no answer names, and of two members it takes either one, by a hash of their random ids. What we do wrong differs always.
"""
TIE_MS = 100
"""Timers that end within this time may end in another order elsewhere."""
D = TypeVar("D", bound=Any)
"""A difference of either kind of program."""
RUNS = itertools.count(1)
"""Each run has groups of its own, whoever asks for it."""

RECORDINGS = Path(__file__).parent / "random_recordings.json"
RECORDED_SEEDS = range(1, 21)
THOUSAND = Path(__file__).parent / "random_recordings.json.xz"
"""What Kafka made of a thousand programs. Compressed: it is fifty times as long as what the quick tests replay."""
THOUSAND_SEEDS = range(1, 1001)

ONE_THREAD: Mapping[str, str] = {"num.network.threads": "1", "num.io.threads": "1"}
"""Kafka then reads requests and sends answers in the order in which they come, on all connections together."""


NO_EXPIRY: Mapping[str, str] = {"offsets.retention.check.interval.ms": "2147483647"}
"""Else a group that is empty is dead from the tenth minute of a broker on, whichever program is played then."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Both stories of a program for which they are not the same."""

    program: Program
    kafka: Played
    ours: Played

    def text(self) -> str:
        lines = difflib.unified_diff(
            self.kafka.text().splitlines(), self.ours.text().splitlines(), "Kafka", "coordinatord", lineterm="", n=8
        )
        return "\n".join(lines)

    def story(self) -> str:
        """As a story file: Kafka's answers, and ours at the end, where they begin to differ."""
        out = [f"# Found by chance: program {self.program.seed}.", ""]
        out += [f"setting {name} = {value}" for name, value in self.program.settings.items()]
        for kafka, ours in zip(self.kafka.story, self.ours.story, strict=False):
            out += ["", *kafka.lines()]
            if kafka != ours:
                commands = [] if kafka.command == ours.command else [ours.command]
                out += ["---- ours: to be explained, or to be mended", *commands, *ours.answer]
                break
        return "\n".join(out) + "\n"


@contextlib.contextmanager
def broker_with(libs: Path, settings: Mapping[str, str]) -> Iterator[KafkaBroker]:
    """Kafka with the settings of a program."""
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(libs, Path(directory), {**settings, **ONE_THREAD, **NO_EXPIRY}) as broker,
    ):
        yield broker


async def ready_topics(connect: Connect) -> dict[str, bytes]:
    """Make the topics that all programs share; their ids."""
    client = await connect("setup")
    topics = [CreatableTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
    created = await client.ask(CreateTopicsRequest(topics), 7)
    assert all(topic.error_code == ErrorCode.NONE for topic in created.topics), created
    for _ in range(100):
        described = await client.ask(MetadataRequest([]), 0)
        if {topic.name for topic in described.topics} >= set(TOPICS):
            break
        await asyncio.sleep(0.1)
    client.close()
    return {topic.name: topic.topic_id for topic in created.topics}


class Kafka:
    """A running broker of Kafka on which programs are played, many at a time."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.turns = asyncio.Semaphore(AT_ONCE)
        self.topic_ids: dict[str, bytes] = {}

    async def connect(self, client_id: str) -> RawClient:
        return await RawClient.connect(self.broker.host, self.broker.port, client_id)

    async def ready(self) -> Kafka:
        await coordinator_ready(self.broker)
        self.topic_ids = await ready_topics(self.connect)
        return self

    async def play(self, it: Program, delay_s: float = 0) -> Played | None:
        """Its story; None when the machine was too busy to keep to the grid."""
        for _ in range(ATTEMPTS):
            async with self.turns:
                await asyncio.sleep(delay_s)
                name = f"p{it.seed}-{next(RUNS)}"
                player = RandomPlayer(it, self.connect, self.broker.host, self.broker.port, name)
                played = await player.play(self.topic_ids)
            if played.is_in_time:
                return played
        return None


async def on_kafka(broker: KafkaBroker, programs: list[Program], until_s: float) -> list[Played | None]:
    """What Kafka makes of them; None also for those that there was no time for."""
    kafka = await Kafka(broker).ready()

    async def play(number: int, it: Program) -> Played | None:
        # Those that begin together shall not act together.
        async with turns:
            if time.monotonic() > until_s:
                return None
            return await kafka.play(it, delay_s=number % 35 / 10 if number < AT_ONCE else 0)

    turns = asyncio.Semaphore(AT_ONCE)
    return await asyncio.gather(*(play(number, it) for number, it in enumerate(programs)))


async def on_ours(
    programs: Iterable[tuple[Program, Played]], settings: Mapping[str, str], directory: Path
) -> list[Played]:
    """What our daemon makes of them, beginning with Kafka's choices; to be run by `in_process.run`."""
    played = []
    async with running_in_process(directory, {**settings, **NO_EXPIRY}) as ours:
        topic_ids = await ready_topics(ours.connect)
        for it, kafka in programs:
            with LeaderChoice().installed() as choice:
                player = RandomPlayer(it, ours.connect, HOST, ours.port, f"p{it.seed}-{next(RUNS)}")
                choice.wanted, choice.generation = kafka.leaders, player.generation
                player.on_burst = partial(look_for_timers, player, ours)
                with watched_timers(player):
                    played.append(await player.play(topic_ids))
    return played


def other_deadlines(group: Group, event: TimedOut) -> list[int]:
    """Those of the rebalance when a member's timer ends, and of the members when the rebalance's does."""
    if event.key.kind == SESSION:
        return [group.join_deadline_ms, group.sync_deadline_ms]
    return [member.session_deadline_ms for member in group.members.values()]


def look_for_timers(player: RandomPlayer, ours: InProcess) -> None:
    """As members begin to act: a timer that is to end among what they do. On one broker they are quicker than it and
    unset it, on the other it ends first. A rebalance's timer can be there when it has been set anew many times.
    """
    now_ms = ours.daemon.now_ms()
    until_ms = now_ms + int((BURST_S + MARGIN_S) * 1000)
    for group_id, actor in ours.daemon.coordinator.actors.items():
        group = actor.group
        deadlines = [group.join_deadline_ms, group.sync_deadline_ms]
        deadlines += [member.session_deadline_ms for member in group.members.values()]
        # A deadline that has passed is that of a member whose timer is off: one that waits for an answer.
        is_near = any(now_ms <= at_ms <= until_ms for at_ms in deadlines)
        if is_near and group_id.startswith(f"{player.names.story}."):
            player.is_in_time = False


@contextlib.contextmanager
def watched_timers(player: RandomPlayer) -> Iterator[None]:
    """Nobody can say what a broker sees first: a timer that ends while members act and what they do, or of two timers
    that end together a member's and the rebalance's."""
    original = classic.timed_out

    def timed_out(group: Group, event: TimedOut, now_ms: int) -> Result:
        is_tie = any(abs(at_ms - now_ms) < TIE_MS for at_ms in other_deadlines(group, event))
        result = original(group, event, now_ms)
        # A rebalance that nobody has rejoined is only timed anew, but some member may just be about to.
        has_effect = result.transitions or result.changes or result.replies or event.key.kind == JOIN
        if has_effect and group.group_id.startswith(f"{player.names.story}.") and (is_tie or player.is_burst()):
            player.is_in_time = False
        return result

    with mock.patch.dict(classic.HANDLERS, {TimedOut: timed_out}):
        yield


def play_on_ours(programs: list[tuple[Program, Played]], settings: Mapping[str, str]) -> list[Played]:
    """The same, from outside of an event loop and without our daemon's log."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        return run(on_ours(programs, settings, Path(directory)))


def differences(
    pairs: list[tuple[Program, Played]], settings: Mapping[str, str], left_out: set[int] | None = None
) -> list[Difference]:
    """Where we do not do what Kafka did. `left_out` takes the seeds of programs of which that cannot be said."""
    found = []
    for (it, kafka), ours in zip(pairs, play_on_ours(pairs, settings), strict=True):
        if kafka.story == ours.story:
            continue
        if ours.is_in_time:
            found.append(Difference(it, kafka, ours))
        elif left_out is not None:
            left_out.add(it.seed)
    return found


@dataclass(slots=True)
class Outcome:
    """Of many programs: in those that are `left_out` time decides, of those that are `unsteady` Kafka itself has told
    different stories, `late` were not played in time.
    """

    played: int = 0
    late: int = 0
    requests: int = 0
    left_out: set[int] = field(default_factory=set)
    unsteady: set[int] = field(default_factory=set)
    found: list[Difference] = field(default_factory=list)


def compare(libs: Path, programs: list[Program], minutes: float, shrink_first: int = 3) -> Outcome:
    """Play all of them on both. The first few differences are made small."""
    outcome = Outcome()
    until_s = time.monotonic() + minutes * 60
    for settings in (SETTINGS, DELAYED):
        chosen = [it for it in programs if it.settings == settings]
        if not chosen:
            continue
        with broker_with(libs, settings) as broker:
            _compare(broker, chosen, settings, until_s, shrink_first, outcome)
    return outcome


def _compare(
    broker: KafkaBroker,
    programs: list[Program],
    settings: Mapping[str, str],
    until_s: float,
    shrink_first: int,
    outcome: Outcome,
) -> list[tuple[Program, Played]]:
    """Adds to the outcome; gives back what Kafka has told, of what it tells in turns the story that is ours, too."""
    stories = asyncio.run(on_kafka(broker, programs, until_s))
    for at_once in (FEWER_AT_ONCE, 5, 1):
        late = [number for number, story in enumerate(stories) if story is None]
        if not late or time.monotonic() >= until_s:
            break
        say(f"not in time: {len(late)} programs of {len(programs)}; again, {at_once} at once")
        played = asyncio.run(_on_ready_kafka(broker, [programs[number] for number in late], at_once))
        for number, story in zip(late, played, strict=True):
            stories[number] = story
    told = {it.seed: (it, story) for it, story in zip(programs, stories, strict=True) if story is not None}
    pairs = list(told.values())
    outcome.played += len(pairs)
    outcome.late += len(programs) - len(pairs)
    outcome.requests += sum(len(story.story) for _, story in pairs)
    say(f"Kafka has played {len(pairs)} programs of {len(programs)}")
    found = differences(pairs, settings, outcome.left_out)
    for _ in range(CHOICES - 1):
        if found:
            say(f"{len(found)} differ: {[one.program.seed for one in found]}; once more on Kafka")
            once_more = {it.seed: (it, story) for it, story in again(broker, found, outcome)}
            missed = [one for one in found if one.program.seed not in once_more]
            found = missed + differences(list(once_more.values()), settings)
            told |= once_more

    def differing(candidates: list[Program]) -> list[Difference]:
        played = asyncio.run(_on_ready_kafka(broker, candidates))
        pairs = [(it, story) for it, story in zip(candidates, played, strict=True) if story is not None]
        return differences(pairs, settings)

    for number, one in enumerate(found):
        outcome.found.append(shrink(one, differing) if number < shrink_first else one)
    return list(told.values())


def again(broker: KafkaBroker, found: list[Difference], outcome: Outcome) -> list[tuple[Program, Played]]:
    """What Kafka tells now of those that differ. What we do wrong we do every time."""
    stories = asyncio.run(_on_ready_kafka(broker, [one.program for one in found]))
    pairs = [(one.program, story) for one, story in zip(found, stories, strict=True) if story is not None]
    first = {one.program.seed: one.kafka.story for one in found}
    outcome.unsteady |= {it.seed for it, story in pairs if story.story != first[it.seed]}
    return pairs


async def _on_ready_kafka(broker: KafkaBroker, programs: list[Program], at_once: int = AT_ONCE) -> list[Played | None]:
    kafka = Kafka(broker)
    kafka.turns = asyncio.Semaphore(at_once)
    client = await kafka.connect("setup")
    described = await client.ask(MetadataRequest(None), 12)
    client.close()
    kafka.topic_ids = {topic.name: topic.topic_id for topic in described.topics if topic.name in TOPICS}
    return list(await asyncio.gather(*(kafka.play(it) for it in programs)))


def shorter(it: Any) -> Iterator[Any]:
    """The program without some of its steps: halves, quarters, ... and single ones."""
    size = len(it.steps) // 2
    while size:
        for start in range(0, len(it.steps), size):
            yield replace(it, steps=it.steps[:start] + it.steps[start + size :])
        size = size // 2 if size > 1 else 0


def shrink(one: D, differing: Callable[[list[Any]], list[D]], rounds: int = 12) -> D:
    """Leave out steps for as long as the stories still differ; all candidates of a round are played at once, and
    `differing` returns those of which both stories differ.
    """
    for _ in range(rounds):
        found = differing(list(shorter(one.program)))
        if not found:
            break
        one = min(found, key=lambda each: len(each.program.steps))
        say(f"program {one.program.seed}: {len(one.program.steps)} steps still differ")
    return one


def say(what: str) -> None:
    """What takes minutes says where it is."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


# Recordings


def record(libs: Path, seeds: Iterable[int], path: Path, minutes: float, *, keep: bool = False) -> Outcome:
    """Write down what Kafka makes of programs, for tests that replay it: also where it is not what we do.

    With `keep` the file's other programs stay.
    """
    outcome = Outcome()
    until_s = time.monotonic() + minutes * 60
    programs = [program(seed) for seed in seeds]
    kept = {it.seed: (it, story) for it, story in recordings(path)} if keep else {}
    for settings in (SETTINGS, DELAYED):
        chosen = [it for it in programs if it.settings == settings]
        if chosen:
            with broker_with(libs, settings) as broker:
                pairs = _compare(broker, chosen, settings, until_s, 0, outcome)
            kept |= {it.seed: (it, story) for it, story in pairs}
    lines = ",\n".join(json.dumps(as_record(*kept[seed]), ensure_ascii=False) for seed in sorted(kept))
    data = f"[\n{lines}\n]\n".encode()
    path.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)
    return outcome


def as_record(it: Program, played: Played) -> dict[str, Any]:
    """A program and Kafka's story, for a file. The steps are there, too, so it outlives other ways to draw them."""
    story = [[told.command, *told.answer] for told in played.story]
    return {"seed": it.seed, "seats": it.seats, "steps": it.steps, "leaders": played.leaders, "story": story}


def recordings(path: Path = RECORDINGS) -> list[tuple[Program, Played]]:
    """What has been recorded."""
    data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    return [
        (
            Program(one["seed"], one["seats"], one["steps"]),
            Played([Told(command, answer) for command, *answer in one["story"]], one["leaders"], True),
        )
        for one in json.loads(data)
    ]


def options_of(module: str) -> argparse.ArgumentParser:
    """Return the options that both kinds of programs have."""
    options = argparse.ArgumentParser(prog=f"python -m tests.reference.{module}")
    options.add_argument("--seed", type=int, nargs="+", help="these programs alone")
    options.add_argument("--first", type=int, default=1, help="the first seed")
    options.add_argument("--count", type=int, default=1_000, help="how many programs")
    options.add_argument("--minutes", type=float, default=30, help="begin no program after that")
    options.add_argument("--shrink", type=int, default=3, help="make that many differences small")
    return options


def main(arguments: list[str]) -> int:
    options = options_of("random_programs")
    options.add_argument("--record", action="store_true", help="record a thousand programs")
    options.add_argument("--record-quick", action="store_true", help="record the twenty of the quick tests")
    given = options.parse_args(arguments)
    libs = kafka_libs()
    if given.record or given.record_quick:
        seeds, path = (THOUSAND_SEEDS, THOUSAND) if given.record else (RECORDED_SEEDS, RECORDINGS)
        outcome = record(libs, given.seed or seeds, path, given.minutes, keep=bool(given.seed))
        print(report(outcome))
        return 1 if outcome.found else 0
    seeds = given.seed or range(given.first, given.first + given.count)
    began_s = time.monotonic()
    outcome = compare(libs, [program(seed) for seed in seeds], given.minutes, given.shrink)
    print(report(outcome))
    print(f"{outcome.played} programs, {outcome.requests} steps told, in {time.monotonic() - began_s:.0f} s")
    return 1 if outcome.found else 0


def report(outcome: Outcome) -> str:
    """What somebody needs who has to look into it."""
    out = []
    for one in outcome.found:
        out += [f"program {one.program.seed} differs", one.text(), "", "small, as a story:", one.story()]
        out += [f"repeat it: python -m tests.reference.random_programs --seed {one.program.seed}", ""]
    out += [f"{len(outcome.found)} differ: {' '.join(str(one.program.seed) for one in outcome.found)}"]
    out += [f"Kafka has told two stories of: {sorted(outcome.unsteady)}; not in time, or no time left: {outcome.late}"]
    out += [f"left out, since a timer fell among other events: {sorted(outcome.left_out)}"]
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
