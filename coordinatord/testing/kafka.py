"""`Kafka`, the entry point for tests."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self, TypedDict, TypeVar, Unpack, overload

from coordinatord.testing.faults import Fault
from coordinatord.testing.groups import TIMEOUT_S, Group, Transaction
from coordinatord.testing.links import Link
from coordinatord.testing.problems import KafkaError, OnlyHere
from coordinatord.testing.servers import Elsewhere, server_for
from coordinatord.testing.share_groups import ShareGroup
from coordinatord.testing.views import Record, TopicPartition
from coordinatord.testing.waits import Looking, Waited
from coordinatord.testing.wire import Header, Wire
from kafka_wire.errors import ErrorCode

T = TypeVar("T")

DELETED_S = 5.0
"""Time in seconds within which an external broker completes the deletion of a topic."""

EMPTY_LOOKS = 3
"""Number of attempts to remove all members of a group on an external broker after a test, while their clients close."""

_DELETED: set[tuple[tuple[str, int], str]] = set()
"""Topics that tests of this process have created and deleted on external brokers: (address, name)."""

_DELETED_GROUPS: set[tuple[tuple[str, int], str]] = set()
"""Groups of such tests: a client that closes late may have joined one again."""


class WhichOne(TypedDict, total=False):
    """The requests that a fault hits: see Kafka."""

    client: str | None
    group: str | None
    times: int | None
    nth: int | None
    optional: bool


class Which(WhichOne, total=False):
    """The requests that a fault hits, also by their share."""

    every: int | None
    probability: float | None


class Kafka:
    """A Kafka for one test: `with Kafka() as kafka:`, or `async with`. Clients use `kafka.bootstrap_servers`.

    The methods from `fail` to `blackhole` return a fault, which is active in its own `with` block. Their arguments:
    `api` is Kafka's name of an API ("OffsetCommit"); `client` (a client id) and `group` (a group id) restrict the
    fault, None matches any. Of the matching requests, `nth` hits only the one with that number (from 1), `every` each
    n-th one, `probability` (0 to 1) a random part, and `times` limits the number of hits; without them, all are hit.
    `optional` allows a block without any hit.
    """

    def __init__(
        self,
        where: str = "thread",
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Prepare a server, which `start` or a `with` block starts. Raises KafkaError if an argument is not valid.

        Args:
            where: "thread", "process", or "HOST:PORT" of a running broker.
            topics: number of partitions by topic name.
            settings: values by Kafka's names, in addition to the defaults for tests (settings.py).
            seed: seed of the faults with a probability.
            data_dir: directory for the data; None removes the data with the server.
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
        self._groups_before: set[str] = set()
        self._used_groups: dict[str, None] = {}
        self._configured: dict[str, dict[str, None]] = {}
        self._skip: Callable[[str], NoReturn] | None = None

    # Start and stop

    def start(self) -> Self:
        """Start the server; returns once clients can connect and the topics exist. A stopped server in a thread starts
        with its earlier data. Raises OnlyHere if there are settings and the broker is an external one, whose settings
        cannot be changed for a test; KafkaError if the server does not start.
        """
        if self._settings:
            self._here(f"run with {', '.join(f'{name}={value}' for name, value in self._settings.items())}")
        self._server.start()
        self._runs = True
        try:
            if self.is_elsewhere:
                self._before = self._wire.topics()
                self._groups_before = {
                    each for each in self._wire.groups() if (self._server.address, each) not in _DELETED_GROUPS
                }
            for name, partitions in self._topics.items():
                if self.is_elsewhere or name not in self._kept:
                    self.create_topic(name, partitions)
                    self._kept.add(name)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the server. On an external broker, delete the topics and groups of the test. Raises KafkaError."""
        try:
            if self.is_elsewhere:
                self._clean_up()
        finally:
            self._runs = False
            self._made.clear()
            self._used.clear()
            self._used_groups.clear()
            self._configured.clear()
            self._wire.close()
            self._server.stop()

    def _clean_up(self) -> None:
        """Delete the topics and groups of the test. A topic that the test has read or written and that did not exist
        before was created by the test or by one of its clients: brokers create topics on demand. So with groups.
        """
        made = sorted({*self._made, *(self._used - self._before)})
        if made:
            self._wire.delete_topics(made)
            _DELETED.update((self._server.address, name) for name in made)
        groups = [each for each in self._used_groups if each not in self._groups_before]
        for group_id in groups:
            self._empty(Group(self._server.link, group_id, self))
        self._wire.delete_groups(groups)
        for group_id in self._configured.keys() - self._groups_before:
            self._wire.configure_group(group_id, self._configured[group_id])
        _DELETED_GROUPS.update((self._server.address, each) for each in groups)

    @staticmethod
    def _empty(group: Group) -> None:
        """Remove all members of a group. Static members do not leave when their client closes, and the next test would
        wait for them. Several attempts, since members change while clients close; an error for one member does not stop
        the rest.
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
        """Stop the server and start it again at the same address. With `crash`, requests in flight get no response, and
        state that was only in memory is lost: for groups, everything that is not in __consumer_offsets. Raises OnlyHere
        for an external broker; KafkaError if the server does not start again, and for a process while faults are
        active.
        """
        self._here("restart")
        self._wire.close()
        self._server.restart(crash=crash)

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients, "HOST:PORT". Raises KafkaError while the server does not run."""
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
        """Folder with the files for `test.users`: `ca.pem`, and `NAME/client.properties` for each listener. Raises
        KafkaError without users, OnlyHere for an external broker.
        """
        return self._server.security_dir

    @property
    def is_elsewhere(self) -> bool:
        """True for an external broker: one that ran before the test, and may be Apache Kafka."""
        return isinstance(self._server, Elsewhere)

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, with `partitions` partitions and the settings `configs`. Raises KafkaError if it exists
        already, or if the broker rejects it.
        """
        ends_s = time.monotonic() + (DELETED_S if self.is_elsewhere else 0.0)
        while self._wire.create_topic(name, partitions, dict(configs or {})) is not ErrorCode.NONE:
            if time.monotonic() > ends_s:
                raise KafkaError(
                    f"There is a topic {name!r} already. A test makes its topics and deletes them: delete this one, or "
                    "give the test's another name."
                )
            if (self._server.address, name) in _DELETED:
                # A late request of an earlier test's client has created it again: brokers create topics on demand.
                self._wire.delete_topics([name])
            time.sleep(0.05)
        self._made.append(name)
        if self.is_elsewhere:
            self._wire.ends(name)  # until each leader serves it: otherwise aiokafka may wait forever

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
        """Append records, to one partition (from 0) or to all in turn. A missing topic is created. Of `values`, bytes
        are written as they are, str as UTF-8, None as a tombstone, and any other value as JSON. `key`, `headers` and
        `timestamp_ms` (milliseconds since 1970; None: the present time) apply to each record. Raises KafkaError if
        `values` is a single value, or if there is no such partition.
        """
        if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
            raise KafkaError(f"put takes a list of values: kafka.put({topic!r}, [{values!r}]).")
        encoded_key = key.encode() if isinstance(key, str) else key
        put = [(encoded_key, encoded(each), headers) for each in values]
        self._used.add(topic)
        self._wire.put(topic, put, partition, int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)

    def messages(self, topic: str, *, committed: bool = False) -> list[Record]:
        """Return all records of a topic, by offset and then by partition: in the order of one `put`. `committed`: only
        those that a consumer with isolation.level=read_committed gets. Raises KafkaError if there is no such topic.
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
        """Return the values of `messages`, each decoded by `decode` (`int`, `json.loads`) if given. A tombstone is
        None.
        """
        values = [each.value for each in self.messages(topic, committed=committed)]
        return values if decode is None else [None if each is None else decode(each) for each in values]

    def until_records(
        self, topic: str, count: int, *, committed: bool = False, timeout: float = TIMEOUT_S
    ) -> Waited[list[bytes | None]]:
        """Wait until a topic has at least `count` records; the topic need not exist yet. In a coroutine, await the
        result.

        `committed`: count only records that a consumer with isolation.level=read_committed gets. `timeout` is in
        seconds. The result of the wait is the list of values, as from `records`. Raises NotInTime with the values that
        exist.
        """

        def look() -> tuple[int, list[bytes | None]]:
            version = self._link.call("changed", timeout_ms=0)["version"]
            is_there = topic in self._wire.topics()
            return version, self.records(topic, committed=committed) if is_there else []

        what = f"{count} record{'s' if count != 1 else ''} in {topic}"
        return Looking(self._link, what, look, lambda found: len(found) >= count, timeout).waited()

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the next offset of each partition. Raises KafkaError if there is no such topic."""
        self._used.add(topic)
        return {(topic, index): offset for index, offset in self._wire.ends(topic).items()}

    # Groups and transactions

    def group(self, group_id: str) -> Group:
        """Return a group, which need not exist yet."""
        self._used_groups[group_id] = None
        return Group(self._link, group_id, self)

    def share_group(self, group_id: str) -> ShareGroup:
        """Return a share group (KIP-932), which need not exist yet."""
        self._used_groups[group_id] = None
        return ShareGroup(self._link, group_id, self)

    def configure_group(self, group_id: str, settings: Mapping[str, object]) -> None:
        """Set settings of a group, by Kafka's names: "share.auto.offset.reset". Raises KafkaError."""
        self._wire.configure_group(group_id, {name: str(value) for name, value in settings.items()})
        self._configured.setdefault(group_id, {}).update(dict.fromkeys(settings))

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offset of a group by partition, which the group reads next. {} if there are none."""
        self._used_groups[group_id] = None
        return self._wire.committed(group_id, None if self._server.has_several_nodes else self._server.own_address)

    def lag(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the number of uncommitted records of a group, by partition that it has committed or been assigned."""
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
        """Return a transactional id, which need not exist yet."""
        return Transaction(self._link, transactional_id)

    # Time

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> datetime.datetime:
        """Advance the server's clock. Returns its time (UTC) after everything that became due has happened: sessions,
        rebalances, transactions, retention. Clients keep their own clocks: a client whose session has ended joins
        again. Raises OnlyHere for an external broker.
        """
        by = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        now_ms = self._link.call("advance", by_ms=round(by / datetime.timedelta(milliseconds=1)))["now_ms"]
        return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)

    # Faults: coordinatord/server/control/faults.py defines which requests they hit

    def fail(self, api: str, error: str, **which: Unpack[Which]) -> Fault:
        """Respond to requests with `error`, the name of a Kafka error, and do not process them."""
        return self._fault("fail", api=api, error=error, **which)

    def delay(self, api: str, seconds: float, **which: Unpack[Which]) -> Fault:
        """Process requests after `seconds`. Later requests on the same connection wait, too."""
        return self._fault("delay", api=api, delay_ms=round(seconds * 1000), **which)

    def hold(self, api: str, **which: Unpack[WhichOne]) -> Fault:
        """Process requests when `Fault.release` is called, at the latest at the end of the block."""
        return self._fault("hold", api=api, **which)

    def drop(self, api: str, *, after: bool = False, before: bool = False, **which: Unpack[Which]) -> Fault:
        """Never respond to requests, and do not process them (`before`, the default) or process them (`after`). Their
        connections are closed at the end of the block. Raises KafkaError for `after` together with `before`.
        """
        if after and before:
            raise KafkaError("A request is dropped before it is processed, or after: say one of them.")
        return self._fault("drop", api=api, after=after, **which)

    def disconnect(self, api: str, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Close the connection when a request arrives; with `after`, once the request has been processed."""
        return self._fault("disconnect", api=api, after=after, **which)

    def duplicate(self, api: str, **which: Unpack[Which]) -> Fault:
        """Process requests twice and respond once, as after a lost response and a repeated request."""
        return self._fault("duplicate", api=api, **which)

    def blackhole(self, client: str) -> Fault:
        """Process no request of this client and send it no response, as if its network were cut. Optional: a block in
        which the client sends no request does not fail.
        """
        return self._fault("drop", optional=True, client=client)

    # Internals

    @property
    def _link(self) -> Link:
        return _Skipping(self._server.link, self._skip) if self._skip is not None else self._server.link

    def _here(self, what: str) -> None:
        """Skip the test or raise OnlyHere if the broker is an external one."""
        if self.is_elsewhere:
            reason = f"Only coordinatord can do this, and the broker is another one: {what}."
            if self._skip is not None:
                self._skip(reason)
            raise OnlyHere(reason)

    def _fault(
        self, kind: str, *, api: str | None = None, error: str | None = None, delay_ms: int | None = None,
        after: bool = False, client: str | None = None, group: str | None = None, times: int | None = None,
        nth: int | None = None, every: int | None = None, probability: float | None = None, optional: bool = False,
    ) -> Fault:  # fmt: skip
        return Fault(
            self._link, optional, kind=kind, api=api, error=error, delay_ms=delay_ms, after=after, client=client,
            group=group, times=times, nth=nth, every=every, probability=probability,
        )  # fmt: skip


class _Skipping:
    """Link that skips a test if the broker is an external one."""

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
    """Return a value as `put` writes it."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
