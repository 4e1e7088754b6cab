"""Kafka: the one object that a test has."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar, overload

from coordinatord.testing.faults import Fault
from coordinatord.testing.groups import TIMEOUT_S, Group, Transaction
from coordinatord.testing.links import Link
from coordinatord.testing.problems import KafkaError, OnlyHere
from coordinatord.testing.servers import Elsewhere, server_for
from coordinatord.testing.views import Record, TopicPartition
from coordinatord.testing.waits import Looking, Waited
from coordinatord.testing.wire import Header, Wire
from kafka_wire.errors import ErrorCode

T = TypeVar("T")

DELETED_S = 5.0
"""How long another broker may take to forget a topic that was deleted."""

EMPTY_LOOKS = 3
"""How often a group of another broker is emptied after a test, while its members are being closed."""

_DELETED: set[tuple[tuple[str, int], str]] = set()
"""Topics of other brokers that tests of this process have made and deleted: (address, name)."""


class Kafka:
    """A Kafka for a test: `with Kafka() as kafka:`, or `async with`. `kafka.bootstrap_servers` is what clients get."""

    def __init__(
        self,
        where: str = "thread",
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """`where`: thread, process, or HOST:PORT of a broker that runs. `topics`: partitions by name. `settings`: under
        Kafka's names, on top of those of tests (settings.py). `seed` decides which requests faults with a probability
        hit. `data_dir`: without it the data is gone with the server. Raises KafkaError for what cannot be used.
        """
        if topics is not None and not isinstance(topics, Mapping):
            raise KafkaError(f"topics= says how many partitions each topic has, {{'orders': 4}}, not {topics!r}.")
        self._topics = dict(topics or {})
        self._runs = False
        directory = Path(data_dir) if data_dir is not None else None
        self._server = server_for(where, dict(settings or {}), seed, directory)
        self._settings = dict(settings or {})
        self._wire = Wire(self._own_address)
        self._made: list[str] = []
        self._kept: set[str] = set()
        self._before: set[str] = set()
        self._used: set[str] = set()
        self._used_groups: dict[str, None] = {}
        self._skip: Callable[[str], NoReturn] | None = None

    # Start and stop

    def start(self) -> Self:
        """Returns when clients can connect and the topics are there. What was stopped starts with what it had. Raises
        OnlyHere if there are settings and the broker is another one: its own settings cannot be changed for a test.
        """
        if self._settings:
            self._here(f"run with {', '.join(f'{name}={value}' for name, value in self._settings.items())}")
        self._server.start()
        self._runs = True
        try:
            if self.is_elsewhere:
                self._before = self._wire.topics()
            for name, partitions in self._topics.items():
                if self.is_elsewhere or name not in self._kept:
                    self.create_topic(name, partitions)
                    self._kept.add(name)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the server. On a broker elsewhere, what the test has made is deleted."""
        try:
            if self.is_elsewhere:
                self._clean_up()
        finally:
            self._runs = False
            self._made.clear()
            self._used.clear()
            self._wire.close()
            self._server.stop()

    def _clean_up(self) -> None:
        """Delete what the test has made. A topic that it has read and that was not there before was made by a client of
        its own: brokers create topics on demand.
        """
        made = sorted({*self._made, *(self._used - self._before)})
        if made:
            self._wire.delete_topics(made)
            _DELETED.update((self._server.address, name) for name in made)
        for group_id in self._used_groups:
            self._empty(Group(self._server.link, group_id, self))
        self._wire.delete_groups(list(self._used_groups))

    @staticmethod
    def _empty(group: Group) -> None:
        """Static members do not leave when they are closed: the next test would wait for them. A few looks, since
        members come and go while their clients are being closed; one that has left keeps no other.
        """
        for _ in range(EMPTY_LOOKS):
            members = group.members
            if not members:
                return
            for each in members:
                with contextlib.suppress(KafkaError):
                    group.kick(each.member_id)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _kind: object, _error: object, _trace: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, _kind: object, _error: object, _trace: object) -> None:
        self.stop()

    def restart(self, *, crash: bool = False) -> None:
        """Stop and start again, at the same address. A crash answers nobody, and what was only in memory is gone: of
        groups that is what __consumer_offsets does not have.
        """
        self._here("restart")
        self._wire.close()
        self._server.restart(crash=crash)

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT."""
        host, port = self._address()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _address(self) -> tuple[str, int]:
        self._must_run()
        return self._server.address

    def _own_address(self) -> tuple[str, int]:
        self._must_run()
        return self._server.own_address

    def _must_run(self) -> None:
        if not self._runs:
            raise KafkaError("The server does not run: use `with Kafka() as kafka:`.")

    @property
    def security_dir(self) -> Path:
        """The folder with what `test.users` has made: `ca.pem`, and for each listener `NAME/client.properties`."""
        return self._server.security_dir

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is a broker that ran before the test, and may be Apache Kafka."""
        return isinstance(self._server, Elsewhere)

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic."""
        ends_s = time.monotonic() + (DELETED_S if self.is_elsewhere else 0.0)
        while self._wire.create_topic(name, partitions, dict(configs or {})) is not ErrorCode.NONE:
            if time.monotonic() > ends_s:
                raise KafkaError(
                    f"There is a topic {name!r} already. A test makes its topics and deletes them: delete this one, or "
                    "give the test's another name."
                )
            if (self._server.address, name) in _DELETED:
                # A last request of an earlier test's client has brought it back: brokers create topics on demand.
                self._wire.delete_topics([name])
            time.sleep(0.05)
        self._made.append(name)
        if self.is_elsewhere:
            self._wire.ends(name)  # until each partition's leader knows that it is one: aiokafka may wait for ever else

    def put(
        self,
        topic: str,
        values: Iterable[object],
        *,
        key: bytes | str | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Append values, to one partition or to all in turn; the topic is made if there is none. Bytes are taken as
        they are, text as UTF-8, None as a tombstone, anything else as JSON.
        """
        if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
            raise KafkaError(f"put takes a list of values: kafka.put({topic!r}, [{values!r}]).")
        encoded_key = key.encode() if isinstance(key, str) else key
        put = [(encoded_key, encoded(each), headers) for each in values]
        if self.is_elsewhere and topic not in self._made:
            self._made.append(topic)
        self._wire.put(topic, put, partition, int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)

    def messages(self, topic: str, *, committed: bool = False) -> list[Record]:
        """All records of a topic, by offset and then by partition: in the order of one `put`. `committed`: those that a
        consumer with isolation.level=read_committed gets.
        """
        self._used.add(topic)
        found = self._wire.records(topic, committed=committed)
        return sorted(found, key=lambda each: (each.offset, each.partition))

    @overload
    def records(self, topic: str, *, committed: bool = False) -> list[bytes | None]: ...

    @overload
    def records(self, topic: str, *, committed: bool = False, decode: Callable[[bytes], T]) -> list[T]: ...

    def records(
        self, topic: str, *, committed: bool = False, decode: Callable[[bytes], Any] | None = None
    ) -> list[Any]:
        """The values of `messages`. With `decode` each is decoded: `decode=int`, `decode=json.loads`. A tombstone stays
        None.
        """
        values = [each.value for each in self.messages(topic, committed=committed)]
        return values if decode is None else [None if each is None else decode(each) for each in values]

    def until_records(
        self, topic: str, count: int, *, committed: bool = False, timeout: float = TIMEOUT_S
    ) -> Waited[list[bytes | None]]:
        """Wait until a topic has so many records; the topic need not be there yet.

        Args:
            topic: its name.
            count: the least number of records.
            committed: count what a consumer with isolation.level=read_committed gets.
            timeout: seconds.

        Returns:
            The values, as `records` does.

        Raises:
            NotInTime: with the values that are there.
        """

        def look() -> tuple[int, list[bytes | None]]:
            version = self._link.call("changed", timeout_ms=0)["version"]
            is_there = topic in self._wire.topics()
            return version, self.records(topic, committed=committed) if is_there else []

        what = f"{count} record{'s' if count != 1 else ''} in {topic}"
        return Looking(self._link, what, look, lambda found: len(found) >= count, timeout).waited()

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        self._used.add(topic)
        return {(topic, index): offset for index, offset in self._wire.ends(topic).items()}

    # Groups and transactions

    def group(self, group_id: str) -> Group:
        """A group, whether there is one yet or not."""
        self._used_groups[group_id] = None
        return Group(self._link, group_id, self)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """What a group has committed: the offset that it reads next, by partition."""
        self._used_groups[group_id] = None
        return self._wire.committed(group_id, None if self._server.has_several_nodes else self._server.own_address)

    def lag(self, group_id: str) -> dict[TopicPartition, int]:
        """How many records a group has not committed, of the partitions that it has committed or been assigned."""
        committed = self.committed(group_id)
        assigned = {each for member in self.group(group_id).members for each in member.partitions}
        found: dict[TopicPartition, int] = {}
        for topic in sorted({topic for topic, _ in [*committed, *assigned]}):
            ends, first = self._wire.ends(topic), self._wire.ends(topic, -2)
            for index, end in ends.items():
                if (topic, index) in committed or (topic, index) in assigned:
                    found[topic, index] = end - committed.get((topic, index), first[index])
        return found

    def transaction(self, transactional_id: str) -> Transaction:
        """A transactional id."""
        return Transaction(self._link, transactional_id)

    # Time

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> datetime.datetime:
        """Let the server's clock jump ahead, and return its time when what was due has happened: sessions, rebalances,
        transactions, retention. Clients keep their own clocks: one whose session ends so joins again.
        """
        by = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        now_ms = self._link.call("advance", by_ms=round(by / datetime.timedelta(milliseconds=1)))["now_ms"]
        return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)

    # Faults: coordinatord/server/control/faults.py says which requests they hit

    def fail(
        self,
        api: str,
        error: str,
        *,
        client: str | None = None,
        group: str | None = None,
        times: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """Requests are answered with an error, and not processed."""
        return self._fault(
            "fail", optional, api=api, error=error, client=client, group=group, times=times, nth=nth, every=every,
            probability=probability,
        )  # fmt: skip

    def delay(
        self,
        api: str,
        seconds: float,
        *,
        client: str | None = None,
        group: str | None = None,
        times: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """Requests are processed so much later; those behind them on their connection wait, too."""
        return self._fault(
            "delay", optional, api=api, delay_ms=round(seconds * 1000), client=client, group=group, times=times,
            nth=nth, every=every, probability=probability,
        )  # fmt: skip

    def hold(
        self,
        api: str,
        *,
        client: str | None = None,
        group: str | None = None,
        times: int | None = None,
        nth: int | None = None,
        optional: bool = False,
    ) -> Fault:
        """Requests are processed when they are released, at the end of the block at the latest."""
        return self._fault("hold", optional, api=api, client=client, group=group, times=times, nth=nth)

    def drop(
        self,
        api: str,
        *,
        after: bool = False,
        before: bool = False,
        client: str | None = None,
        group: str | None = None,
        times: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """Requests are never answered; `after`: but processed. Their connections are closed at the end of the block."""
        if after and before:
            raise KafkaError("A request is dropped before it is processed, or after: say one of them.")
        return self._fault(
            "drop", optional, api=api, after=after, client=client, group=group, times=times, nth=nth, every=every,
            probability=probability,
        )  # fmt: skip

    def disconnect(
        self,
        api: str,
        *,
        after: bool = False,
        client: str | None = None,
        group: str | None = None,
        times: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """The connection is closed when a request comes; `after`: when it has been processed."""
        return self._fault(
            "disconnect", optional, api=api, after=after, client=client, group=group, times=times, nth=nth, every=every,
            probability=probability,
        )  # fmt: skip

    def duplicate(
        self,
        api: str,
        *,
        client: str | None = None,
        group: str | None = None,
        times: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """Requests are processed twice, as when an answer was lost and the client has asked again."""
        return self._fault(
            "duplicate", optional, api=api, client=client, group=group, times=times, nth=nth, every=every,
            probability=probability,
        )  # fmt: skip

    def blackhole(self, client: str) -> Fault:
        """A condition: no request of this client is processed or answered, as if its network were cut. A block in which
        the client sends nothing does not fail.
        """
        return self._fault("drop", optional=True, client=client)

    # Within

    @property
    def _link(self) -> Link:
        return _Skipping(self._server.link, self._skip) if self._skip is not None else self._server.link

    def _here(self, what: str) -> None:
        """Raises OnlyHere, or skips, on a broker elsewhere."""
        if self.is_elsewhere:
            reason = f"Only coordinatord can do this, and the broker is another one: {what}."
            if self._skip is not None:
                self._skip(reason)
            raise OnlyHere(reason)

    def _fault(self, kind: str, optional: bool, **arguments: Any) -> Fault:
        return Fault(self._link, optional, kind=kind, **arguments)


class _Skipping:
    """A link that skips a test where the broker is another one."""

    def __init__(self, link: Link, skip: Callable[[str], NoReturn]) -> None:
        self._inner = link
        self._skip = skip

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        try:
            return self._inner.call(name, **arguments)
        except OnlyHere as error:
            self._skip(str(error))

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        try:
            return await self._inner.call_later(name, **arguments)
        except OnlyHere as error:
            self._skip(str(error))


def encoded(value: object) -> bytes | None:
    """A value as `put` writes it."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
