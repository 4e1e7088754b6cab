"""kafka-python consumers as applications run them: each polled by a thread of its own, or by a process of its own."""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import RetriableError

from tests.daemon import REPOSITORY
from tests.support.waiting import PATIENCE_S, wait_until

POLL_TIMEOUT_MS = 100
# When new metadata makes kafka-python 3.0.12 join again and its poll times out before the answer, it drops the answer:
# it is in the new generation and does not know it, for good. A poll that outlasts the rebalance does not. Members
# without partitions poll so: their topics' metadata is new to them.
PATIENT_POLL_TIMEOUT_MS = 2_000
POSITION_TIMEOUT_MS = 2_000
INTERRUPTED_S = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assigned:
    """One end of a rebalance, as a member's listener saw it. `partitions` are those that came, not all."""

    at_s: float  # time.time()
    partitions: frozenset[TopicPartition]


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self.member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.member.assignments.append(Assigned(time.time(), frozenset(assigned)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.member.revocations.append(frozenset(revoked))


class Member:
    """A KafkaConsumer in a thread. Its attributes are what it last knew; `call` runs something in its thread."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *topics: str,
        pattern: str | None = None,
        poll_timeout_ms: int = POLL_TIMEOUT_MS,
        **settings: Any,
    ) -> None:
        self.group = group
        self.records: list[Any] = []
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.generation = -1
        self.member_id = ""
        self.assignments: list[Assigned] = []
        self.revocations: list[frozenset[TopicPartition]] = []
        self.problem: BaseException | None = None
        self._settings = {"bootstrap_servers": bootstrap, "group_id": group, **settings}
        self._topics, self._pattern = topics, pattern
        self._poll_timeout_ms = poll_timeout_ms
        self._work: queue.SimpleQueue[Callable[[KafkaConsumer], None]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"member of {group}", daemon=True)
        self._thread.start()

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions assigned, for groups of one topic."""
        return sorted(tp.partition for tp in self.assignment)

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.records]

    def call(self, work: Callable[[KafkaConsumer], T], timeout_s: float = PATIENCE_S) -> T:
        """Run `work(consumer)` between two polls and give what it returns, or raise what it raises."""
        answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def run(consumer: KafkaConsumer) -> None:
            try:
                answers.put((work(consumer), None))
            except Exception as problem:
                answers.put((None, problem))

        self._work.put(run)
        self.check()
        result, problem = answers.get(timeout=timeout_s)
        if problem is not None:
            raise problem
        return result  # type: ignore[no-any-return]

    def check(self) -> None:
        if self.problem is not None:
            raise AssertionError(f"the member of {self.group} failed") from self.problem

    def close(self) -> None:
        """Leave the group as an application does that ends in order; raises what its thread has raised."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"the member of {self.group} did not close"
        self.check()

    def _run(self) -> None:
        try:
            consumer = KafkaConsumer(**self._settings)
            try:
                consumer.subscribe(self._topics, pattern=self._pattern, listener=_Listener(self))
                while not self._stopping.is_set():
                    try:
                        self._turn(consumer)
                    except RetriableError:
                        # kafka-python's way to say that the coordinator is down: applications poll again.
                        self._stopping.wait(INTERRUPTED_S)
            finally:
                consumer.close(timeout_ms=10_000)
        except BaseException as problem:
            self.problem = problem

    def _turn(self, consumer: KafkaConsumer) -> None:
        while not self._work.empty():
            self._work.get()(consumer)
        patient_ms = max(self._poll_timeout_ms, 0 if self.assignment else PATIENT_POLL_TIMEOUT_MS)
        self.records += polled(consumer, patient_ms)
        known = consumer.group_metadata()
        assignment = frozenset(consumer.assignment())
        if assignment != self.assignment:
            # Assigned is one thing, knowing where to read another: with auto.offset.reset=latest, what is produced
            # before the position is known is never seen.
            for partition in assignment:
                consumer.position(partition, timeout_ms=POSITION_TIMEOUT_MS)
        self.generation, self.member_id, self.assignment = known.generation_id, known.member_id, assignment


def wait_for_members(members: Sequence[Member], condition: Callable[[], object], what: str, **how: Any) -> float:
    """`wait_until` that ends at once when a member has failed, and says who has which partitions."""

    def true_or_failed() -> object:
        for member in members:
            member.check()
        return condition()

    def seen() -> str:
        return (
            f"assigned {[sorted(map(tuple, m.assignment)) for m in members]}, seen {[len(m.records) for m in members]}"
        )

    return wait_until(true_or_failed, what, seen=seen, **how)


def wait_for_assignment(members: Sequence[Member], partitions: int, **how: Any) -> float:
    """Until all of `partitions` are assigned, each to one member, no member without any, all in one generation."""

    def assigned() -> bool:
        owned = Counter(tp for member in members for tp in member.assignment)
        everybody = all(member.assignment for member in members)
        generations = {member.generation for member in members}
        return len(owned) == partitions == owned.total() and everybody and len(generations) == 1

    return wait_for_members(members, assigned, f"{partitions} partitions assigned to {len(members)} members", **how)


def wait_for_values(members: Sequence[Member], values: Iterable[bytes], **how: Any) -> float:
    """Until each of `values` has been seen by some member."""
    wanted = set(values)

    def arrived() -> bool:
        return wanted <= {value for member in members for value in member.values}

    return wait_for_members(members, arrived, f"{len(wanted)} values", **how)


def polled(consumer: KafkaConsumer, timeout_ms: int = POLL_TIMEOUT_MS, **how: Any) -> list[Any]:
    """The records of one poll, of whichever partitions."""
    return list(itertools.chain(*consumer.poll(timeout_ms=timeout_ms, **how).values()))


class ConsumerProcess:
    """`tests.clients.consumer_process` as a child: what it reports, and ways to end it."""

    def __init__(self, bootstrap: str, group: str, *topics: str, pause_ms: int = 0, **settings: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()  # of events, by kind
        arguments = {"topics": topics, "pause_ms": pause_ms}
        arguments["settings"] = {"bootstrap_servers": bootstrap, "group_id": group, **settings}
        command = [sys.executable, "-m", "tests.clients.consumer_process", json.dumps(arguments)]
        # A process group of its own: Ctrl-C is for us, and we end it then.
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True, process_group=0
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a SIGKILL may cut the last one off
                self.events.append(json.loads(line))
                self.counts[self.events[-1]["kind"]] += 1

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["kind"] == kind]

    @property
    def assignment(self) -> list[int]:
        """The numbers of the partitions that it has now."""
        for event in reversed(list(self.events)):
            if event["kind"] == "assigned":
                return sorted(event["partitions"])
            if event["kind"] == "revoked":
                return []
        return []

    def kill(self) -> float:
        """SIGKILL, and all that it had reported is read; returns the wall-clock second of it."""
        at_s = time.time()
        self.process.kill()
        self._ended()
        return at_s

    def terminate(self) -> int:
        """SIGTERM: it closes its consumer and leaves the group; its exit code."""
        self.process.terminate()
        return self._ended()

    def _ended(self) -> int:
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@contextmanager
def polling(consumer: KafkaConsumer) -> Iterator[None]:
    """A thread polls meanwhile. kafka-python joins anew when a poll ends in the middle of a join: so polls are long."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            consumer.poll(PATIENT_POLL_TIMEOUT_MS)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
