"""The source's options, parsed from Spark's strings; an error is one sentence."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinatord.monitoring.offsets_log.decode.projection import Names, Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS
from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, SourceError

SPLIT_BYTES = 16 << 20
#: Seconds of retries if a broker does not respond, or a partition has no leader.
PATIENCE_S = 30
#: Prefix of options for the broker: `kafka.security_protocol` and the like go to kafka-python unchanged.
BROKER_PREFIX = "kafka."

_OWN = {
    "path", "paths", "bootstrap", "kind", "kinds", "groups", "topics", "partitions", "topic", "splitbytes", "pushdown",
    "onreplaced", "maxbytespertrigger", "maxrecordspertrigger", "startingoffsets", "failondataloss", "columns",
    "patienceseconds",
}  # fmt: skip


#: Properties that Spark adds to a table (its TableCatalog's reserved ones).
_OF_TABLES = {"provider", "owner", "comment", "external", "is_managed_location", "collation"}


@dataclass(frozen=True, slots=True)
class Options:
    paths: tuple[str, ...]
    bootstrap: str | None
    broker: dict[str, object] = field(repr=False)  # it contains passwords
    kinds: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: frozenset[int] | None
    topic: str
    split_bytes: int
    pushdown: bool
    on_replaced: str
    max_bytes: int | None
    max_records: int | None
    starting_offsets: str
    fail_on_data_loss: bool
    patience_s: int
    wanted: Wanted = field(init=False)

    @property
    def store(self) -> str | None:
        """The address of the database that has the log; None if the log is not in a database."""
        return self.paths[0] if self.paths and store.is_stored(self.paths[0]) else None

    def __post_init__(self) -> None:
        wanted = Wanted(
            kinds=frozenset(self.kinds),
            groups=(Names(self.groups),) if self.groups else (),
            topics=(Names(self.topics),) if self.topics else (),
        )
        object.__setattr__(self, "wanted", wanted)


def read_options(given: Mapping[str, str]) -> Options:
    """Return the options of a `load()`; names are case-insensitive. Raises SourceError."""
    options = {name.lower(): value for name, value in given.items()}
    # A table in Spark's catalog adds its properties, and repeats the options with the prefix `option.`.
    options = {name: value for name, value in options.items() if name not in _OF_TABLES and name[:7] != "option."}
    broker = {name: value for name, value in options.items() if name.startswith(BROKER_PREFIX)}
    for name in options.keys() - broker.keys() - _OWN:
        near = difflib.get_close_matches(name, _OWN, 1)
        hint = f": did you mean {near[0]}?" if near else ""
        raise SourceError(f"consumer_offsets has no option {name}{hint}")
    paths = [options["path"]] if options.get("path") else []
    paths += json.loads(options["paths"]) if options.get("paths") else []
    bootstrap = options.get("bootstrap")
    if bool(paths) == bool(bootstrap):
        raise SourceError(
            'say where the log is: load("DIRECTORY") for segments or the option bootstrap="HOST:PORT", one of both'
        )
    if bootstrap:
        check_address("bootstrap", bootstrap)
    for path in paths:
        if store.is_stored(path):
            if len(paths) > 1:
                raise SourceError("a database has a whole log: give one, and nothing beside it")
            store.check(path)
    if broker and not bootstrap:
        raise SourceError(f"{min(broker)} is for a broker, and there is no bootstrap=")
    if bootstrap and options.get("maxbytespertrigger"):
        raise SourceError(
            "a broker does not say how many bytes its records have: use maxRecordsPerTrigger with bootstrap"
        )
    if options.get("kind") and options.get("kinds"):
        raise SourceError("give kind or kinds, not both")
    kinds = _kinds(name_list(options.get("kind") or options.get("kinds") or ""))
    return Options(
        paths=tuple(paths),
        bootstrap=bootstrap,
        broker=broker_settings({name.removeprefix(BROKER_PREFIX): value for name, value in broker.items()}),
        kinds=kinds,
        columns=tuple(name_list(options.get("columns", ""))),
        groups=tuple(name_list(options.get("groups", ""))),
        topics=tuple(name_list(options.get("topics", ""))),
        partitions=_partitions(options.get("partitions")),
        topic=options.get("topic", OFFSETS_TOPIC),
        split_bytes=_positive("splitBytes", options.get("splitbytes")) or SPLIT_BYTES,
        pushdown=_boolean("pushdown", options.get("pushdown", "false")),
        on_replaced=_one_of("onReplaced", options.get("onreplaced", "reread"), ("reread", "fail")),
        max_bytes=_positive("maxBytesPerTrigger", options.get("maxbytespertrigger")),
        max_records=_positive("maxRecordsPerTrigger", options.get("maxrecordspertrigger")),
        starting_offsets=_one_of("startingOffsets", options.get("startingoffsets", "earliest"), ("earliest", "latest")),
        fail_on_data_loss=_boolean("failOnDataLoss", options.get("failondataloss", "true")),
        patience_s=_positive("patienceSeconds", options.get("patienceseconds")) or PATIENCE_S,
    )


def check_address(option: str, text: str, or_else: str = "") -> None:
    """Check for one or several comma-separated addresses, which the option needs unless it has the value `or_else`.
    Raises SourceError.
    """
    for each in text.split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65_536:
            wanted = f"{or_else} or HOST:PORT" if or_else else "HOST:PORT"
            raise SourceError(f"{option} {text}: {wanted} is wanted")


def name_list(text: str) -> list[str]:
    """Return the names in a comma-separated or JSON list. Raises SourceError."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise SourceError(f"{text} is not a JSON list of names")
        return found
    return [name.strip() for name in text.split(",") if name.strip()]


def _kinds(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, 1)
            raise SourceError(
                f"there is no kind {name}"
                + (f": did you mean {near[0]}?" if near else f"; there are {', '.join(KINDS)}")
            )
    return tuple(dict.fromkeys(names)) or tuple(KINDS)


def _partitions(text: str | None) -> frozenset[int] | None:
    """Return the numbers in `0,3,10-19`; None for all. Raises SourceError."""
    if not text:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SourceError(f"partitions={text}: numbers and ranges by commas are wanted, like 0,3,10-19")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or int(text) == 0:
        raise SourceError(f"{name}={text}: a whole number above 0 is wanted")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    return _one_of(name, text.lower(), ("true", "false")) == "true"


def _one_of(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise SourceError(f"{name}={text}: one of {', '.join(choices)} is wanted")
    return text


#: kafka-python's settings that are text, whatever they look like: a password may be a number.
_TEXT = re.compile(r"sasl_.*|ssl_.*file|ssl_password|client_.*|security_protocol")


def broker_settings(given: Mapping[str, str]) -> dict[str, object]:
    """Convert settings from text to kafka-python's types: numbers and booleans."""
    return {name: value if _TEXT.fullmatch(name) else _value(value) for name, value in given.items()}


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text
