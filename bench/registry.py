"""What a row of the table is. A module in `rows/` adds one with a function:

    @row("heartbeat", "heartbeat, 8 in flight", "µs", columns=[OURS, LIMIT, KAFKA], targets=[at_most(2, of="limit")])
    def heartbeat(arena: Arena, column: Column, seconds: float) -> Sample: ...

It is called once per round and column, in turn: one round of every column, then the next. What it has to prepare it
keeps in the server's `fixtures`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.generator import Driven
from bench.servers import KINDS, Server, Unavailable, unpinned


@dataclass(frozen=True, slots=True)
class Column:
    """A server under the settings of a row."""

    key: str
    kind: str
    label: str
    settings: tuple[tuple[str, str], ...] = ()


def ours(key: str = "ours", label: str = "coordinatord", **settings: str) -> Column:
    """Our daemon; `log_flush="never"` is the setting log.flush."""
    return Column(key, "ours", label, tuple((name.replace("_", "."), value) for name, value in settings.items()))


OURS = ours()
OURS_NEVER = ours(label="coordinatord, flush=never", log_flush="never")
OURS_ALWAYS = ours(label="coordinatord, flush=always", log_flush="always")
OURS_FLUSHED = ours("ours-always", "coordinatord, flush=always", log_flush="always")
"""Shown beside `OURS_NEVER`, which is what is compared: the others do not flush."""
LIMIT, KAFKA, KFAKE = (Column(kind, kind, KINDS[kind].label) for kind in ("limit", "kafka", "kfake"))


@dataclass(slots=True)
class Sample:
    """One round of one column."""

    value: float
    #: what latencies were, when the row knows
    latencies: list[tuple[float, int]] = field(default_factory=list)
    per_s: float | None = None
    #: share of a core that the server and the generator used
    server_busy: float | None = None
    generator_busy: float | None = None
    #: other figures by name, for the JSON and for targets
    also: dict[str, float] = field(default_factory=dict)

    @classmethod
    def cpu_per_request(cls, driven: Driven, server_cpu_s: float) -> Sample:
        """Microseconds of the server's CPU per request."""
        return cls(
            server_cpu_s / driven.requests * 1e6,
            driven.latencies,
            driven.requests / driven.wall_s,
            server_cpu_s / driven.wall_s,
            driven.own_cpu_s / driven.wall_s,
        )


@dataclass(frozen=True, slots=True)
class Target:
    """`value` of our column against a limit: absolute, or a ratio `of` another column or figure of `also`."""

    limit: float
    of: str | None = None
    at_least: bool = False
    what: str = "value"

    def met(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


def at_most(limit: float, of: str | None = None, what: str = "value") -> Target:
    return Target(limit, of, False, what)


def at_least(limit: float, of: str | None = None, what: str = "value") -> Target:
    return Target(limit, of, True, what)


Measure = Callable[["Arena", Column, float], Sample]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    unit: str
    columns: Sequence[Column]
    targets: Sequence[Target]
    measure: Measure
    #: rounds of a whole run at most, for rows that are slow or do not vary
    rounds: int
    #: is it part of `make bench-quick`
    quick: bool
    more_is_better: bool


ROWS: dict[str, Row] = {}


def row(
    name: str,
    title: str,
    unit: str,
    *,
    columns: Sequence[Column] = (OURS,),
    targets: Sequence[Target] = (),
    rounds: int = 99,
    quick: bool = True,
    more_is_better: bool = False,
) -> Callable[[Measure], Measure]:
    """Add a row to the table."""

    def add(measure: Measure) -> Measure:
        assert name not in ROWS, name
        ROWS[name] = Row(name, title, unit, columns, targets, measure, rounds, quick, more_is_better)
        return measure

    return add


class Arena:
    """The servers of a run: started when first asked for, kept warm, stopped at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.absent: dict[str, str] = {}  # kind -> why it is left out
        self.remembered: dict[str, list[float]] = {}  # what one row has seen for another, by column
        self._running: dict[tuple[str, tuple[tuple[str, str], ...]], Server] = {}
        self._numbers = itertools.count()

    def server(self, column: Column) -> Server:
        """The one that all rows with these settings share."""
        key = (column.kind, column.settings)
        if key not in self._running or self._running[key].process.poll() is not None:
            self._running[key] = self._start(column, {})
        self._running[key].settle()
        return self._running[key]

    @contextlib.contextmanager
    def fresh(self, column: Column, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
        """One for the block only."""
        server = self._start(column, settings or {})
        try:
            yield server
        finally:
            server.stop()

    def _start(self, column: Column, settings: Mapping[str, str]) -> Server:
        if column.kind in self.absent:
            raise Unavailable(self.absent[column.kind])
        directory = self.directory / f"{next(self._numbers)}-{column.kind}"
        try:
            with unpinned():
                return KINDS[column.kind].start(directory, {**dict(column.settings), **settings})
        except Unavailable as why:
            self.absent[column.kind] = str(why)
            raise

    def forget(self, server: Server) -> None:
        """Stop one before its time: what a row has prepared on it would be in the others' way."""
        self._running = {key: each for key, each in self._running.items() if each is not server}
        server.stop()

    def close(self) -> None:
        for server in self._running.values():
            server.stop()
        self._running.clear()
