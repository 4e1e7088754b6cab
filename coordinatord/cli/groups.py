"""`coordinatord groups`, and its command `why`, which sends requests to a running coordinator."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import click

from coordinatord.cli import LazyGroup
from coordinatord.cli.epoch_text import epoch_story, seconds, state_lines
from coordinatord.cli.options import BAD_SETTINGS, fail, utf8
from coordinatord.cli.terminal import echo
from coordinatord.cli.times import utc
from coordinatord.cli.wire import Unreachable, Wire, WireError
from coordinatord.coordination.group.result import NO_REASON
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.share_group_describe import DescribedGroup as SharedGroup
from kafka_wire.api.share_group_describe import ShareGroupDescribeRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import read_header
from kafka_wire.records.key_values import key_values
from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC, Cause, Outcome, Redelivery, unreadable

CLIENT_ID = "coordinatord-groups"
EARLIEST = -2
LATEST = -1
FETCH_BYTES = 8 << 20
SHOWN_MEMBERS = 5
"""Maximum number of members that a line names; of others it gives the count."""

NO_LEDGER = (
    f"The cluster has no topic {LEDGER_TOPIC}. A plain Kafka records no causes of rebalances: `coordinatord exporter` "
    "and `pipeline run` infer them from its offsets log. A coordinatord makes the topic with its first rebalance, "
    "unless rebalance.ledger.enable or rebalance.ledger.topic.enable is false."
)
NO_CLIENT_REASON = f"; client reason: {NO_REASON}"

CAUSES = {
    Cause.SESSION_EXPIRED: "sent no heartbeat within its session timeout",
    Cause.NOT_REJOINED: "did not rejoin within the rebalance timeout",
    Cause.NOT_SYNCED: "did not send SyncGroup within the rebalance timeout",
    Cause.JOIN_EXPIRED: "waited in a join for five minutes",
    Cause.LEFT: "left",
    Cause.REPLACED: "was replaced by a new process with its group.instance.id",
    Cause.GROUP_FULL: "was dropped: group.max.size is reached",
}

REDELIVERIES = {
    Redelivery.LOCK_EXPIRED: "did not acknowledge them before their lock expired",
    Redelivery.RELEASED: "released them",
    Redelivery.MEMBER_GONE: "ended its share session, or lost its connection",
    Redelivery.RENEWED_TOO_LATE: "renewed locks that it no longer had",
}

_HERE = "coordinatord.cli.group_commands"
_RESET = "coordinatord.cli.reset"
COMMANDS = {
    "list": (_HERE, "list_", "List the groups of a cluster."),
    "describe": (_HERE, "describe", "Show the partitions of GROUPS: committed offset, end, lag and owner."),
    "members": (_HERE, "members", "Show the members of GROUPS, and which partitions each has."),
    "why": ("coordinatord.cli.groups", "why", "Show why GROUP rebalanced (coordinatord alone records that)."),
    "watch": (_HERE, "watch", "Print a line whenever a member or the state of GROUPS changes."),
    "evict": (_HERE, "evict", "Remove one MEMBER of GROUP, dynamic or static."),
    "delete": (_HERE, "delete", "Delete GROUPS with their committed offsets."),
    "delete-offsets": (_HERE, "delete_offsets", "Delete the committed offsets of GROUP for topics."),
    "reset-offsets": (_RESET, "reset_offsets", "Move the committed offsets of GROUPS."),
    "export": (_RESET, "export", "Write the committed offsets of GROUPS as CSV."),
    "import": (_RESET, "import_", "Restore the offsets in FILE, which `groups export` has written."),
}


@click.group(name="groups", cls=LazyGroup, known=COMMANDS)
def groups() -> None:
    """Groups of any Kafka cluster: members and offsets.

    Commands that delete or change something are dry runs without --execute.
    """


@click.command()
@click.argument("group", callback=utf8)
@click.option(
    "--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True, help="Any node of the coordinator."
)
@click.option(
    "--last",
    metavar="N",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Show the last N rebalances.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON records, one per line, oldest first.")
def why(group: str, bootstrap: str, last: int, as_json: bool) -> None:
    """Show why GROUP rebalanced: the causes, late and dropped members, and moved partitions. Of a share group: which
    records it gets again, and why.

    Reads the topic __rebalances, which has the rebalances of the last days, of deleted groups too.
    """
    try:
        state, records = look_up(bootstrap, group, last)
    except WireError as error:
        fail(str(error), status=BAD_SETTINGS if isinstance(error, Unreachable) else 1)
    if is_absent(state) and not records:
        fail(*history_lines(group, state, records))
    if as_json:
        for record in records or ():
            echo(json.dumps(record))
        return
    for line in history_lines(group, state, records):
        echo(line)


def look_up(bootstrap: str, group: str, last: int) -> tuple[Any, list[dict[str, Any]] | None]:
    """Return the group as in ConsumerGroupDescribe or ShareGroupDescribe, or as in DescribeGroups if it is a classic
    group, and the records of its last rebalances, or of a share group's redeliveries, oldest first; None instead of
    records if the cluster has no such topic. Raises WireError, also for a streams group.
    """
    with Wire(bootstrap, CLIENT_ID) as wire:
        metadata = wire.ask(MetadataRequest([MetadataRequestTopic(name=LEDGER_TOPIC)], False))
        coordinator = wire.ask(FindCoordinatorRequest(group), newest=3)
    topic = metadata.topics[0]
    has_ledger = topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = ErrorCode(coordinator.error_code or (topic.error_code if has_ledger else 0))
    if code:
        raise WireError(f"{bootstrap} cannot answer now: {code.name}. Try again in a moment.")
    with Wire(_address(coordinator.host, coordinator.port), CLIENT_ID) as wire:
        state = _described(wire, group)
    if not has_ledger:
        return state, None
    records: list[dict[str, Any]] = []
    for leader_id, partition in _places(topic, group, of_all=isinstance(state, SharedGroup)).items():
        leader = next((node for node in metadata.brokers if node.node_id == leader_id), None)
        if leader is None:
            raise WireError(f"Partition {partition} of {LEDGER_TOPIC} has no leader now. Try again in a moment.")
        with Wire(_address(leader.host, leader.port), CLIENT_ID) as wire:
            records += deque(_records(wire, partition, group), maxlen=last)
    if isinstance(state, SharedGroup):
        records.sort(key=lambda record: int(record.get("at_ms", 0)))
    return state, records[-last:]


def _places(topic: Any, group: str, *, of_all: bool) -> dict[int, int]:
    """Return the leader and number of the partition with a group's records. With `of_all`, each node that delivers
    records to a share group writes to the next partition that it leads, from the group's partition on.
    """
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    first, found = partition_for(group, len(leaders)), dict[int, int]()
    for step in range(len(leaders) if of_all else 1):
        partition = (first + step) % len(leaders)
        found.setdefault(leaders[partition], partition)
    return found


def _described(wire: Wire, group: str) -> Any:
    if wire.serves(ConsumerGroupDescribeRequest):
        found = wire.ask(ConsumerGroupDescribeRequest([group])).groups[0]
        if not found.error_code:
            return found
    found = wire.ask(DescribeGroupsRequest([group])).groups[0]
    if is_absent(found):
        kinds = {each.group_id: each.group_type for each in wire.ask(ListGroupsRequest()).groups}
        if kinds.get(group) == "share":
            return wire.ask(ShareGroupDescribeRequest([group])).groups[0]
        if kinds.get(group) == "streams":
            raise WireError(
                f"group {group} is a streams group: nothing records why it rebalances. "
                f"`coordinatord groups watch {group}` prints each change of it."
            )
    return found


def is_absent(state: Any) -> bool:
    """Return whether a group in a DescribeGroups response does not exist, or is not of the classic protocol."""
    return bool(state.error_code == ErrorCode.GROUP_ID_NOT_FOUND or state.group_state == "Dead")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _records(wire: Wire, partition: int, group: str) -> Iterator[dict[str, Any]]:
    """Return the records of one group in a partition of the ledger, up to the partition's present end."""
    offset, end = (_offset(wire, partition, at) for at in (EARLIEST, LATEST))
    wanted = group.encode("utf-8", "replace")
    while offset < end:
        asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES, topics=[FetchTopic(LEDGER_TOPIC, partitions=[asked])]
        )
        found = wire.ask(request, newest=12).responses[0].partitions[0]
        _check(wire, found.error_code)
        data, at = found.records or b"", 0
        began = offset
        while at < len(data):
            header = read_header(data, at)
            if at + header.size > len(data):
                break
            for record_offset, _timestamp, key, value in key_values(data, at, header):
                if record_offset >= began and key == wanted and value is not None:
                    yield json.loads(value)
            at += header.size
            offset = header.last_offset + 1
        if offset == began:
            return


def _offset(wire: Wire, partition: int, timestamp: int) -> int:
    topic = ListOffsetsTopic(LEDGER_TOPIC, [ListOffsetsPartition(partition, timestamp=timestamp)])
    found = wire.ask(ListOffsetsRequest(-1, topics=[topic]), newest=6).topics[0].partitions[0]
    _check(wire, found.error_code)
    return int(found.offset)


def _check(wire: Wire, error_code: int) -> None:
    if error_code:
        raise WireError(f"{wire.address} cannot read {LEDGER_TOPIC}: {ErrorCode(error_code).name}.")


def history_lines(group: str, state: Any, records: list[dict[str, Any]] | None) -> Iterator[str]:
    """Describe the history of a group in plain words, the newest rebalance first. `records` is None if there is no
    ledger.
    """
    if isinstance(state, DescribedGroup):
        yield from state_lines(state)
    elif is_absent(state):
        yield f"Group {group} does not exist now."
    elif state.error_code:
        yield f"The state of group {group} is not available now: {ErrorCode(state.error_code).name}."
    else:
        size = len(state.members)
        members = f"{size} member{'' if size == 1 else 's'}"
        if isinstance(state, SharedGroup):
            yield f"Share group {group} is {state.group_state}: {members}."
        else:
            protocol = f", assigned by {state.protocol_data}" if state.protocol_data else ""
            yield f"Group {group} is {state.group_state}: {members}{protocol}."
    what = "redelivery" if isinstance(state, SharedGroup) else "rebalance"
    if records is None:
        yield NO_LEDGER
    elif not records:
        yield f"No {what} of this group is recorded; records are kept for seven days."
    for record in reversed(records or ()):
        yield ""
        yield from story(record)


def story(record: dict[str, Any]) -> Iterator[str]:
    """Describe one rebalance, in a few lines; for an unknown version of the record, give the reason why it is not
    shown.
    """
    reason = unreadable(record)
    if reason is not None:
        yield f"One rebalance is not shown: its record {reason}."
        return
    if record.get("group_type") == "share":
        yield from redelivery(record)
        return
    if record.get("group_type") == "consumer":
        yield from epoch_story(record)
        return
    before, after = record["generation_before"], record["generation_after"]
    generation = f"generation {before} → {after}" if before != after else f"generation {before}"
    took = seconds(record["ended_ms"] - record["began_ms"])
    ending = {
        Outcome.COMPLETED: f"took {took}",
        Outcome.SUPERSEDED: f"abandoned after {took} for another rebalance",
        Outcome.EMPTY: f"ended after {took}: no members were left",
        Outcome.STOPPED: f"cut off after {took}: the coordinator stopped serving the group, or it was deleted",
    }[record["outcome"]]
    yield f"{utc(record['began_ms'])}  {generation}, {ending}"
    trigger = record["trigger"]
    yield f"  why: {trigger['text'].removesuffix(NO_CLIENT_REASON)}"
    yield f"  members: {record['members_before']} before, {record['members_after']} after" + _changes(record)
    for cause, who in _by_cause(record["dropped"]).items():
        if who == [trigger.get("member_id")] and cause == trigger["kind"].removeprefix("member "):
            continue  # the line before names it
        yield f"  {_names(who)} {CAUSES.get(cause, cause)}"
    joined_ms = record["joined_ms"]
    if joined_ms is not None:
        join_ms, sync_ms = joined_ms - record["began_ms"], record["ended_ms"] - joined_ms
        delay = ", the initial delay for more members included" if record["initial"] else ""
        leader = f"(leader {record['leader']})"
        yield f"  joining took {seconds(join_ms)}{delay}; the assignment {seconds(sync_ms)} {leader}"
    slowest = record.get("slowest")
    if slowest and slowest["after_ms"]:
        doing = "joined last" if slowest["phase"] == "join" else "took longest to assign"
        if any(slowest["member_id"] == each["member_id"] for each in record["dropped"]):
            doing = "was waited for and did not come"
        yield f"  slowest: {slowest['member_id']} {doing}, {seconds(slowest['after_ms'])}"


def redelivery(record: dict[str, Any]) -> Iterator[str]:
    """Describe records of a share group that are delivered again, in two lines."""
    count, archived, first, last = (record[name] for name in ("count", "archived", "first_offset", "last_offset"))
    records = f"{count} record{'' if count == 1 else 's'} of {record['topic']}-{record['partition']}"
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    yield f"{utc(record['at_ms'])}  {records}, {offsets}"
    yield f"  why: {record['member_id']} {REDELIVERIES.get(record['cause'], record['cause'])}"
    if archived:
        yield f"  {archived} of them will not come again: delivered {record['delivery_count']} times"


def _changes(record: dict[str, Any]) -> str:
    parts = [f"{record[what]} {what}" for what in ("added", "removed") if record[what]]
    return f" ({', '.join(parts)})" if parts else ""


def _by_cause(dropped: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in dropped:
        if each["cause"] in CAUSES:  # ids that were assigned but never used were not members
            found.setdefault(each["cause"], []).append(each["member_id"])
    return found


def _names(who: list[str]) -> str:
    shown = ", ".join(who[:SHOWN_MEMBERS])
    return shown if len(who) <= SHOWN_MEMBERS else f"{shown} and {len(who) - SHOWN_MEMBERS} more"
