"""The share partitions of share groups in `coordinatord lag`, from the state that the cluster stores of them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coordinatord.cli.tables import lines, number

if TYPE_CHECKING:
    from coordinatord.monitoring.analysis.share_state import Deliveries
    from coordinatord.monitoring.offsets_log.source.share_state_topic import ShareStates


class ShareRow(NamedTuple):
    """A share partition. `topic` is the topic's id if its name is unknown."""

    group_id: str
    topic: str
    partition: int
    deliveries: Deliveries


def share_rows(stored: ShareStates, types: Mapping[str, str], limits: Mapping[str, int]) -> list[ShareRow]:
    """Return the share partitions of the selected groups that have stored state. `types` are the types of groups that
    are neither classic nor consumer groups, `limits` the delivery count limits that are known. Raises SourceError.
    """
    if "share" not in types.values():
        return []
    from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT, deliveries
    from coordinatord.monitoring.offsets_log.source.topic_names import names_from_broker, names_in_directories

    states = {place: state for place, state in stored.read().items() if types.get(place.group_id) == "share"}
    if not states:
        return []
    options, bootstrap = stored.options, stored.options.bootstrap
    names = names_in_directories(options.paths) if bootstrap is None else names_from_broker(bootstrap, options.broker)
    rows = []
    for (group, topic_id, partition), state in states.items():
        text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
        found = deliveries(state, limits.get(group, DELIVERY_COUNT_LIMIT))
        rows.append(ShareRow(group, names.get(text, text), partition, found))
    return sorted(rows, key=lambda row: row[:3])


def share_lines(rows: Sequence[ShareRow], *, after: bool) -> Iterator[str]:
    """Yield the table. With `after`, it follows another one."""
    if rows and after:
        yield ""
    yield from lines(
        (
            "GROUP", "TOPIC", ">PARTITION", ">START", ">DONE AFTER IT", ">ARCHIVED", ">MOST DELIVERIES", "/WHY",
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
                found.why,
            )
            for row in rows
            for found in [row.deliveries]
        ),
    )  # fmt: skip
