"""The share partitions of share groups in `coordinatord lag`, from the state that the cluster stores of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coordinatord.cli.options import sentence
from coordinatord.cli.tables import duration, lines, number
from coordinatord.cli.terminal import echo

if TYPE_CHECKING:
    from coordinatord.monitoring.analysis.share_state import Deliveries, Replayed
    from coordinatord.monitoring.offsets_log.lag.lag_scan import Snapshot
    from coordinatord.monitoring.offsets_log.source.share_state_topic import SharePartition, ShareStates


class Stored:
    """The share partitions of the selected groups. Where they cannot be read, a sentence on standard error gives the
    reason, once: the rest of the command does without.
    """

    def __init__(self, states: ShareStates) -> None:
        self.options = states.options
        self._states = states
        self._refused = ""

    def read(self) -> Mapping[SharePartition, Replayed]:
        """Return the share partitions that exist; none if they cannot be read."""
        from coordinatord.monitoring.offsets_log.source.segments import SourceError

        try:
            return self._states.read()
        except SourceError as error:
            if str(error) != self._refused:
                echo(sentence(f"deliveries of share groups are missing here: {error}"), err=True)
            self._refused = str(error)
            return {}


class ShareRow(NamedTuple):
    """A share partition. `topic` is the topic's id if its name is unknown."""

    group_id: str
    topic: str
    partition: int
    deliveries: Deliveries
    age_ms: int | None
    """Time since the oldest unacknowledged record was appended."""
    changed_ms: int | None
    """When the stored state changed last."""


def share_rows(stored: Stored, snapshot: Snapshot, limits: Mapping[str, int]) -> list[ShareRow]:
    """Return the share partitions of the selected groups that have stored state. `limits` are the delivery count limits
    that the cluster returned; without any, those of the log of its metadata hold. Raises SourceError.
    """
    types = snapshot.others
    if "share" not in types.values():
        return []
    from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT, deliveries
    from coordinatord.monitoring.offsets_log.source.end_offsets import RecordTimes
    from coordinatord.monitoring.offsets_log.source.share_limits import delivery_limits
    from coordinatord.monitoring.offsets_log.source.topic_names import (
        names_from_broker,
        names_in_directories,
        topic_text,
    )

    shared = {place: found for place, found in stored.read().items() if types.get(place.group_id) == "share"}
    if not shared:
        return []
    options, bootstrap = stored.options, stored.options.bootstrap
    names = names_in_directories(options.paths) if bootstrap is None else names_from_broker(bootstrap, options.broker)
    limits = limits or delivery_limits(options, {place.group_id for place in shared})
    ages_ms = {row[:3]: row.time_lag_ms for row in snapshot.rows}
    time_of = RecordTimes(options.paths)
    rows = []
    for (group, topic_id, partition), replayed in shared.items():
        state, topic = replayed.state(), topic_text(topic_id)
        if state is None:
            continue
        topic = names.get(topic, topic)
        found = deliveries(state, limits.get(group, DELIVERY_COUNT_LIMIT))
        age_ms = ages_ms.get((group, topic, partition))
        if age_ms is None and found.oldest is not None:
            time_ms = time_of(topic, partition, found.oldest)
            age_ms = None if time_ms is None else snapshot.at_ms - time_ms
        rows.append(ShareRow(group, topic, partition, found, age_ms, replayed.changed_ms))
    return sorted(rows, key=lambda row: row[:3])


def share_lines(rows: Sequence[ShareRow], at_ms: int, *, after: bool) -> Iterator[str]:
    """Yield the table at `at_ms`. With `after`, it follows another one."""
    if rows and after:
        yield ""
    yield from lines(
        (
            "GROUP", "TOPIC", ">PARTITION", ">START", ">DONE AFTER IT", ">ARCHIVED", ">MOST DELIVERIES",
            ">OLDEST RECORD", ">LAST CHANGE", "/WHY",
        ),
        (
            (
                row.group_id,
                row.topic,
                str(row.partition),
                number(found.start_offset),
                number(found.done),
                number(found.archived),
                "-" if found.at_offset is None else f"{found.most_deliveries:,} at {found.at_offset:,}",
                duration(row.age_ms),
                duration(None if row.changed_ms is None else at_ms - row.changed_ms, " ago"),
                found.why,
            )
            for row in rows
            for found in [row.deliveries]
        ),
    )  # fmt: skip
