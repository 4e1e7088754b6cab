"""Random programs for a share partition, and our answers in the form of java/SharePartitionCheck.java."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.events import AcknowledgementBatch, OffsetRange
from coordinatord.coordination.share.partition.result import Result
from coordinatord.coordination.share.partition.state import (
    DeadLetters,
    InFlightBatch,
    InFlightState,
    Limits,
    SharePartition,
)
from coordinatord.coordination.share.partition.step import step
from coordinatord.coordination.share.partition.window import can_acquire, next_fetch_offset
from coordinatord.coordination.share.persister import StateBatch
from tests.coordination.share.model import ACQUIRED, Log, states_of

STEPS = 120
MEMBERS = ("one", "two", "three")

RECORDED = Path(__file__).with_name("kafka_partitions.json.xz")
"""Programs and the answers of Kafka's own class: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(20)

MESSAGES = {True: "Offset rejected by client.", False: "Offset delivery count exceeded the threshold."}


class Player:
    """Our share partition, as it plays the steps of a program."""

    def __init__(self, program: dict[str, Any]) -> None:
        self.limits = Limits(
            program["lock"], program["limit"], program["locks"], program["renew"], program["letters"]
        )  # fmt: skip
        self.partition = SharePartition(self.limits)
        self.now_ms = 0
        #: by step: the id of its write
        self.writes: dict[int, int] = {}
        #: by step: its dead letters
        self.letters: dict[int, Sequence[DeadLetters]] = {}
        self.number = 0

    def answer(self, now_ms: int, do: str, *arguments: Any) -> list[Any]:
        self.now_ms = now_ms
        number = self.number
        self.number += 1
        if do == "initialize":
            self.partition = SharePartition(self.limits)
            self.writes.clear()
            self.letters.clear()
        result = step(self.partition, self._event(do, *arguments), now_ms)
        written = None
        if result.write is not None:
            self.writes[number] = result.write.write_id
            batches = sorted([each.first_offset, *each[1:]] for each in result.write.batches)
            written = [result.write.start_offset, result.write.delivery_complete_count, batches]
        self.letters[number] = result.letters
        letters = [[*each[:3], MESSAGES[each.is_rejected]] for each in result.letters]
        return [self._reply(do, result), written, self.state(), letters]

    def _event(self, do: str, *arguments: Any) -> events.Event:
        match do, arguments:
            case "initialize", (start, epoch, batches):
                return events.Initialize(start, epoch, [StateBatch(*each) for each in batches])
            case "acquire", (*plain, batches, aborted):
                ranges = [OffsetRange(*each) for each in batches], [OffsetRange(*each) for each in aborted]
                return events.Acquire(*plain, *ranges)
            case "acknowledge", (member, batches):
                return events.Acknowledge(member, tuple(AcknowledgementBatch(*each) for each in batches))
            case "release", (member,):
                return events.Release(member)
            case "move", (offset,):
                return events.MoveLogStart(offset)
            case "written", (number, committed):
                return events.Written(self.writes.pop(number), committed)
            case "letters", (number, _):
                return events.LettersDone(self.letters.pop(number))
        return events.LockTimeout()

    def _reply(self, do: str, result: Result) -> Any:
        if do == "initialize":
            return self.partition.status.name
        if do == "acquire":
            return [result.count, [list(each) for each in result.acquired]]
        return [int(result.error), result.message] if result.error else None

    def state(self) -> list[Any]:
        share = self.partition
        gap = [share.gap.start, share.gap.end] if share.gap is not None else None
        batches = [
            [batch.first, batch.last, _record(batch.whole) if batch.whole else _records(batch)]
            for batch in share.batches
        ]
        offsets = [share.start_offset, share.end_offset, share.delivery_complete_count]
        return [*offsets, gap, next_fetch_offset(share), can_acquire(share), batches]


def _records(batch: InFlightBatch) -> list[Any]:
    return [_record(batch.at(offset)) for offset in range(batch.first, batch.last + 1)]


def _record(record: InFlightState) -> list[Any]:
    return [record.state, record.delivery_count, record.member_id, record.before is not None, record.deadline_ms]


def ours(program: dict[str, Any]) -> list[Any]:
    player = Player(program)
    return [player.answer(*each) for each in program["steps"]]


class Writer:
    """Writes a random program: plays it, so that most of its steps fit the state of the share partition."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.program: dict[str, Any] = {
            "lock": chance.choice((50, 1_000)),
            "limit": chance.choice((2, 3, 4, 5, 7)),
            "locks": chance.choice((5, 20, 100)),
            "renew": chance.random() < 0.8,
            "letters": chance.random() < 0.5,
            "steps": [],
        }
        self.player = Player(self.program)
        self.log = Log()
        self.now_ms = 1_000
        self.open: list[int] = []
        self.open_letters: list[int] = []

    def write(self) -> dict[str, Any]:
        actions = (
            self.append, self.acquire, self.acquire, self.acknowledge, self.acknowledge, self.acknowledge_some,
            self.written, self.written, self.letters_done, self.release, self.pass_time, self.compact, self.delete,
            self.restart,
        )  # fmt: skip
        weights = (6, 10, 10, 8, 8, 5, 10, 10, 8, 1, 3, 1, 1, 0.7)
        self.restart(first=True)
        while len(self.program["steps"]) < STEPS:
            self.chance.choices(actions, weights)[0]()
        return self.program

    def do(self, do: str, *arguments: Any) -> list[Any]:
        made = [self.now_ms, do, *arguments]
        self.program["steps"].append(made)
        answer = self.player.answer(self.now_ms, do, *arguments)
        if answer[1] is not None:
            self.open.append(len(self.program["steps"]) - 1)
        if answer[3]:
            self.open_letters.append(len(self.program["steps"]) - 1)
        return answer

    # Steps

    def append(self) -> None:
        self.log.append(self.chance.choice((1, 1, 3, 10)), aborted=self.chance.random() < 0.08)

    def acquire(self) -> None:
        chance, share = self.chance, self.player.partition
        if not can_acquire(share):
            return
        offset = next_fetch_offset(share)
        if offset < self.log.start:
            self.do("move", self.log.start)
            return
        read = self.log.read(offset, chance.choice((1, 2, 5)))
        if not read or offset >= self.log.end:
            return
        aborted = [list(batch) for batch in read if batch in self.log.aborted]
        self.do(
            "acquire", chance.choice(MEMBERS), chance.random() < 0.4, chance.choice((1, 3, 500)),
            chance.choice((1, 2, 7, 500)), offset, [list(each) for each in read], aborted,
        )  # fmt: skip

    def acknowledge(self) -> None:
        chance = self.chance
        start = self.player.partition.start_offset
        states = [each for each in states_of(self.player.partition) if each[0] >= start]
        member = chance.choice(MEMBERS)
        owned = [
            offset for offset, record in self._records() if record.state == ACQUIRED and record.member_id == member
            and offset >= start
        ]  # fmt: skip
        if not owned or not states:
            return
        if chance.random() < 0.5:
            owned = owned[: chance.randint(1, len(owned))]
        batches: list[list[Any]] = []
        for offset in owned:
            if batches and batches[-1][1] + 1 == offset and chance.random() < 0.9:
                batches[-1][1] = offset
            else:
                batches.append([offset, offset, [chance.choice((0, 1, 1, 1, 2, 2, 3, 4))]])
        if chance.random() < 0.3:
            for each in batches:
                each[2] = [chance.choice((0, 1, 2, 2, 3, 4)) for _ in range(each[1] - each[0] + 1)]
        self.do("acknowledge", member, batches)

    def _records(self) -> list[tuple[int, InFlightState]]:
        found = []
        for batch in self.player.partition.batches:
            for offset in range(batch.first, batch.last + 1):
                found.append((offset, batch.at(offset)))
        return found

    def acknowledge_some(self) -> None:
        """Acknowledge any offsets: mostly wrong."""
        chance, share = self.chance, self.player.partition
        first = max(0, chance.randint(share.start_offset - 3, share.end_offset + 3))
        last = first + chance.choice((0, 0, 2, 5))
        self.do("acknowledge", chance.choice(MEMBERS), [[first, last, [chance.choice((1, 2, 3, 4, 5))]]])

    def written(self) -> None:
        if self.open:
            self.do("written", self.open.pop(self.chance.randrange(len(self.open))), self.chance.random() < 0.8)

    def letters_done(self) -> None:
        if self.open_letters:
            at = self.chance.randrange(len(self.open_letters))
            self.do("letters", self.open_letters.pop(at), self.chance.random() < 0.8)

    def release(self) -> None:
        self.do("release", self.chance.choice(MEMBERS))

    def pass_time(self) -> None:
        self.now_ms += self.chance.choice((10, 40, 1_000))
        self.do("time")

    def compact(self) -> None:
        """Remove a record batch from the middle of the log."""
        if len(self.log.batches) > 3:
            del self.log.batches[self.chance.randrange(len(self.log.batches) - 2)]

    def delete(self) -> None:
        """Move the log's start; the share partition sees it with its next read."""
        if self.chance.random() < 0.5 and len(self.log.batches) > 2:
            self.log.start = max(self.log.start, self.chance.choice(self.log.batches[:-1]).first)
            self.log.batches = [batch for batch in self.log.batches if batch.last >= self.log.start]

    def restart(self, *, first: bool = False) -> None:
        """Read a persisted state: of records that are acquired nothing is persisted."""
        self.open.clear()
        self.open_letters.clear()
        start = self.player.partition.start_offset
        batches: list[list[int]] = []
        for offset, record in self._records() if not first else ():
            if offset < start or record.state == ACQUIRED or self.chance.random() < 0.05:
                continue
            new = [offset, offset, int(record.state), record.delivery_count]
            if batches and batches[-1][1] + 1 == offset and batches[-1][2:] == new[2:]:
                batches[-1][1] = offset
            else:
                batches.append(new)
        self.do("initialize", start, 0, batches)


def program(seed: int) -> dict[str, Any]:
    return Writer(seed).write()


def stalled_program() -> dict[str, Any]:
    """The program after which nothing more is acquired. After the restart 1 and 2 are a gap; once they are done, the
    start offset is that of the gap window, 3, although 3 to 9 are done too. So 7 records count as in flight.
    """
    steps: list[list[Any]] = [
        [0, "initialize", 0, 0, [[0, 0, 2, 1], [3, 9, 2, 1]]],
        [0, "acquire", "one", False, 500, 500, 1, [[0, 9]], []],
        [0, "acknowledge", "one", [[1, 2, [1]]]],
        [0, "written", 2, True],
        [1_000, "time"],
    ]
    return {"lock": 50, "limit": 5, "locks": 5, "renew": True, "letters": False, "steps": steps}


def recorded_programs() -> list[dict[str, Any]]:
    return [*(program(seed) for seed in RECORDED_SEEDS), stalled_program()]


def compared(program: dict[str, Any], answers: list[Any]) -> int:
    """Return the number of steps with equal answers: all of them, or those before a difference that is known."""
    before: list[Any] = []
    mine = ours(program)
    for number, (asked, theirs) in enumerate(zip(program["steps"], answers, strict=False)):
        if len(theirs) == 4 and asked[1] == "written" and program["steps"][asked[2]][1] == "time":
            theirs[3].sort()  # of locks that end together, in the order of Kafka's timers
        if _by_offset(mine[number]) != _by_offset(theirs):
            assert _is_known(asked, before, theirs), (number, asked, before, mine[number], theirs)
            return number
        before = theirs[2]
    assert len(answers) == len(program["steps"])
    return len(answers)


def _by_offset(answer: list[Any]) -> list[Any]:
    """Return the answer with what is written, and the dead letters, one by one: Kafka has the records of a split batch
    in its writes one by one, which the share coordinator joins.
    """
    if len(answer) < 4:
        return answer
    reply, written, state, letters = answer
    return [reply, written and [*written[:2], _singly(written[2])], state, _singly(letters)]


def _singly(runs: list[Any]) -> list[Any]:
    return [[offset, *what] for first, last, *what in runs for offset in range(first, last + 1)]


def _is_known(step: list[Any], before: list[Any], theirs: list[Any]) -> bool:
    """Whether it is one of the differences in tests/reference/DIFFERENCES.md that the answer differs here."""
    start, *_, batches = before
    if theirs == ["NullPointerException"]:
        return bool(step[1] == "acknowledge" and step[3][0][0] < start and all(step[3][0][0] < b[0] for b in batches))
    if theirs == ["IllegalArgumentException"]:
        return bool(step[1] == "acquire" and (step[7][0][0] > batches[-1][1] or _has_old_lock(batches)))
    if theirs == ["IllegalStateException"]:
        return bool(step[1] == "acquire" and step[8] and step[8][0][0] < start)
    return step[1] in ("written", "time", "letters") and not any(first <= start <= last for first, last, _ in batches)


def _has_old_lock(batches: list[Any]) -> bool:
    """Return whether a record of a split batch is available, and still has the lock that it was released from."""
    records = [each for _, _, found in batches if isinstance(found[0], list) for each in found]
    return any(state == 0 and not changes and deadline is not None for state, _, _, changes, deadline in records)


def recorded() -> list[tuple[dict[str, Any], list[Any]]]:
    found: list[tuple[dict[str, Any], list[Any]]] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return found
