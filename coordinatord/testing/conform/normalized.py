"""Responses as text in which only relevant values can differ: random ids become M1, T1, P1, unordered lists are sorted.

A field with its default value is left out, so the text is complete: an absent field has its default. Only error codes,
by name, and partitions are always shown. `throttle_time_ms` is shown when it is not 0, like all other fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_wire.api.delete_records import DeleteRecordsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.list_offsets import ListOffsetsRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.api.produce import ProduceRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records import batch
from kafka_wire.schema import ZERO_UUID, Field, schema_of

LINE_WIDTH = 118
NAME = re.compile(r"(group|topic|transaction)\w*$")
_SHORT_UUID = re.compile(r"[A-Za-z0-9_-]{22}$")
"""A Uuid in Kafka's text form, which is also the form of the ids that Kafka assigns to consumer protocol members."""
_UUID = re.compile(
    r".*?-?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32})$", re.DOTALL
)
"""The end of a member id. Kafka writes a Uuid with dashes; some brokers write only its 32 digits."""
ALWAYS_SHOWN = {"error_code", "partition_index"}

OF_A_MACHINE = {"log_dir": "DIRECTORY", "total_bytes": "SIZE", "usable_bytes": "ROOM"}

# Lists that Kafka keeps in hash maps, so that their order has no meaning.
UNORDERED = {
    ("JoinGroupResponse", "members"),
    ("DescribedGroup", "members"),
    ("ListGroupsResponse", "groups"),
    ("DeleteGroupsResponse", "results"),
    ("DeleteTopicsResponse", "responses"),
    ("CreatePartitionsResponse", "results"),
    ("WritableTxnMarkerResult", "topics"),
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"),
    ("AddPartitionsToTxnResult", "topic_results"),
    ("AddPartitionsToTxnTopicResult", "results_by_partition"),
    ("TransactionState", "topics"),
    ("TopicData", "partitions"),
    ("DescribeLogDirsResult", "topics"),
    ("DescribeLogDirsTopic", "partitions"),
    ("ListConfigResourcesResponse", "config_resources"),
    ("ListTransactionsResponse", "transaction_states"),
    ("ConsumerGroupDescribeResponse", "groups"),
    ("ShareGroupDescribeResponse", "groups"),
    ("ShareFetchResponse", "responses"),
    ("ShareFetchableTopicResponse", "partitions"),
    ("ShareAcknowledgeResponse", "responses"),
    ("ShareAcknowledgeTopicResponse", "partitions"),
    ("DescribeShareGroupOffsetsResponseGroup", "topics"),
    ("DescribeShareGroupOffsetsResponseTopic", "partitions"),
    ("AlterShareGroupOffsetsResponse", "responses"),
    ("AlterShareGroupOffsetsResponseTopic", "partitions"),
    ("DeleteShareGroupOffsetsResponse", "responses"),
    ("Assignment", "topic_partitions"),
    ("TopicPartitions", "partitions"),
    ("Member", "subscribed_topic_names"),
}


class Names:
    """The names of a story: its own groups and topics, and the ids that a broker has generated."""

    def __init__(self, story: str, host: str, port: int, prefix: str = "") -> None:
        self.story = story
        #: prefix of its names on the broker; in a recording that is the story's name
        self.prefix = prefix or story
        self.place = {"host": (host, "HOST"), "port": (port, "PORT")}
        self.ids: dict[Any, str] = {}
        self.values: dict[str, Any] = {}
        self.made: dict[Any, str] = {}
        self.news: list[str] = []
        self.version = 0

    def lookup(self, name: str) -> Any:
        """Return the value of a name in a story. Raises ValueError when there is none."""
        if NAME.match(name):
            return f"{self.prefix}.{name}"
        if name in self.values:
            return self.values[name]
        if name in ErrorCode.__members__:
            return int(ErrorCode[name])
        raise ValueError(f"{name} is not known (yet)")

    def remember(self, source: str, value: Any) -> None:
        """Store the value that a function of the story has made: in responses the call stands for this value."""
        if isinstance(value, (bytes, str)) and value:
            self.made[value] = source.replace("dict(", "{").replace('"', "'")

    def id_for(self, kind: str, value: Any, prefix: str = "") -> str:
        """Return the name of an id, a new name when the id has not been seen."""
        name = self.ids.get(value)
        if name is None:
            name = f"{kind}{sum(other[0] == kind for other in self.ids.values()) + 1}"
            self.ids[value] = name
            self.values[name] = value
            if prefix:
                self.news.append(f"{name} is {prefix}*")
        return name

    def text(self, value: str) -> str:
        """Return the text of a string: a name of this story, a member id, or the string in quotes."""
        if value in self.ids:
            return self.ids[value]
        own = value.removeprefix(f"{self.prefix}.")
        if own != value and NAME.match(own):
            return own
        if match := _UUID.match(value):
            return self.id_for("M", value, value[: match.start(1)])
        return self.made.get(value) or repr(value.replace(f"{self.prefix}.", "."))

    def as_recorded(self, value: str) -> str:
        """Return a name in its recorded form, for sorting."""
        return value.replace(f"{self.prefix}.", f"{self.story}.", 1)

    def as_recorded_bytes(self, value: bytes) -> bytes:
        """Return bytes in their recorded form. Topic names in them follow their length in two bytes."""
        prefix = f"{self.prefix}.".encode()
        if self.prefix == self.story or prefix not in value:
            return value
        before, _, after = value.partition(prefix)
        length = int.from_bytes(before[-2:], "big") - len(self.prefix.encode()) + len(self.story.encode())
        if not 0 <= length <= 0x7FFF:  # not a length: the name is in the middle of a text
            return before + f"{self.story}.".encode() + self.as_recorded_bytes(after)
        return before[:-2] + length.to_bytes(2, "big") + f"{self.story}.".encode() + self.as_recorded_bytes(after)

    def field(self, field: Field, value: Any, struct: str) -> Node:
        """Return the text of one field's value."""
        if field.name == "error_code":
            return ErrorCode(value).name
        if field.name == "member_id" and value is not None and _SHORT_UUID.match(value):
            return self.id_for("M", value)
        if field.name in self.place and value == self.place[field.name][0]:
            return self.place[field.name][1]
        if field.name == "cluster_id" and value is not None:
            return "CLUSTER"
        if field.name == "transaction_start_time_ms" and value > 0:
            return "THEN"
        if field.name in OF_A_MACHINE:
            return OF_A_MACHINE[field.name]
        if field.name == "producer_id" and value >= 0:
            return self.id_for("P", value)
        if (struct, field.name) == ("ListGroupsResponse", "groups") and not ordered(self, struct, field.name, value):
            return NO_GROUPS
        if field.type.kind == "records" and value is not None:
            return Block("[]", list(batches(value)))
        if isinstance(value, list):
            return Block("[]", [self.value(item) for item in ordered(self, struct, field.name, value)])
        return self.value(value, is_id=field.type.kind == "uuid")

    def value(self, value: Any, is_id: bool = False) -> Node:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            if is_id and value != ZERO_UUID:
                return self.id_for("T", value)
            return self.made.get(value) or repr(self.as_recorded_bytes(value))
        if hasattr(type(value), "__schema__"):
            return Block("{}", parts(self, value))
        return repr(value)


@dataclass(slots=True)
class Block:
    """A list or struct as text: its brackets, and its content. The parts of a struct have names."""

    brackets: str
    inner: list[Any]

    def lines(self, name: str = "") -> list[str]:
        """Return one line if the text fits, else a line for each part."""
        flat = name + flat_text(self)
        if len(flat) <= LINE_WIDTH:
            return [flat]
        out = [name + self.brackets[0]]
        for part in filled(self.inner):
            out += [f"    {line}" for line in part]
        return [*out, self.brackets[1]]


Node = str | Block
"""A value as text."""


def batches(data: bytes) -> Iterator[Node]:
    """Yield the fetched batches: the position and the values of each; its CRC stands for all the rest."""
    for position, header in batch.iterate_batches(data):
        within = list(batch.records(data, position, header))
        yield Block(
            "{}",
            [
                ("base_offset", str(header.base_offset)),
                ("leader_epoch", str(header.leader_epoch)),
                ("crc", f"{header.crc:#010x}"),
                ("values", repr([None if record.value is None else record.value.decode() for record in within])),
            ],
        )


NO_GROUPS = ""
"""Text of a list that has only other stories' groups: it is shown like an empty list."""


def put_in_order(request: Any, response: Any) -> None:
    """Sort the parts of a response that a broker may return in any order: an OffsetFetch of all topics, since the
    request did not name them; described groups, which Kafka gathers by their partitions of the log; the topics of
    ListOffsets, Produce and DeleteRecords, which Kafka gathers in a map by name or by topic id.
    """
    if isinstance(request, DescribeGroupsRequest):
        asked_at: dict[str, list[int]] = {}
        for position, group_id in reversed(list(enumerate(request.groups))):
            asked_at.setdefault(group_id, []).append(position)
        response.groups.sort(key=lambda group: asked_at[group.group_id].pop())
    if isinstance(request, ListOffsetsRequest):
        names = [topic.name for topic in request.topics]
        response.topics.sort(key=lambda topic: names.index(topic.name))
    if isinstance(request, ProduceRequest):
        topics = [(topic.name, topic.topic_id) for topic in request.topic_data]
        response.responses.sort(key=lambda topic: topics.index((topic.name, topic.topic_id)))
        for produced in response.responses:
            produced.partition_responses.sort(key=lambda partition: partition.index)
    if isinstance(request, DeleteRecordsRequest):
        names = [topic.name for topic in request.topics]
        response.topics.sort(key=lambda topic: names.index(topic.name))
        for deleted in response.topics:
            deleted.partitions.sort(key=lambda partition: partition.partition_index)
    if not isinstance(request, OffsetFetchRequest):
        return
    pairs: list[tuple[Any, Any]] = [(request, response), *zip(request.groups, response.groups, strict=False)]
    for asked, answered in pairs:
        if asked.topics is None:
            for topic in answered.topics:
                topic.partitions.sort(key=lambda partition: partition.partition_index)
            # From v10 on there is an id in place of the name, and the id is different each time.
            answered.topics.sort(key=lambda topic: (topic.name, [p.committed_offset for p in topic.partitions]))


def flat_text(node: Node | tuple[str, Node]) -> str:
    """Return the whole text in one line."""
    if isinstance(node, tuple):
        return f"{node[0]}={flat_text(node[1])}"
    if isinstance(node, str):
        return node
    return node.brackets[0] + ", ".join(flat_text(part) for part in node.inner) + node.brackets[1]


def filled(nodes: Sequence[Node | tuple[str, Node]]) -> Iterator[list[str]]:
    """Yield lines with as many parts each as fit. A part that fits no line has several of its own, like a struct."""
    line = ""
    for node in nodes:
        flat = flat_text(node)
        if line and (len(line) + 2 + len(flat) > LINE_WIDTH - 4 or isinstance(node, Block)):
            yield [line]
            line = ""
        if len(flat) <= LINE_WIDTH - 4:
            line = f"{line}, {flat}" if line else flat
            continue
        name, value = node if isinstance(node, tuple) else ("", node)
        prefix = f"{name}=" if name else ""
        yield value.lines(prefix) if isinstance(value, Block) else [prefix + value]
    if line:
        yield [line]


def ordered(names: Names, struct: str, field: str, items: list[Any]) -> list[Any]:
    """Return a list in an order that does not depend on a broker's hash maps, without other stories' groups."""
    if (struct, field) not in UNORDERED:
        return items
    if struct in ("DeleteGroupsResponse", "ConsumerGroupDescribeResponse", "ShareGroupDescribeResponse"):
        return sorted(items, key=lambda item: names.as_recorded(item.group_id))
    if struct in ("DeleteTopicsResponse", "CreatePartitionsResponse"):
        return sorted(items, key=lambda item: names.as_recorded(item.name or ""))
    if (struct, field) == ("AddPartitionsToTxnTopicResult", "results_by_partition"):
        return sorted(items, key=lambda item: item.partition_index)
    if "Share" in struct:
        return sorted(items, key=lambda item: _share_rank(names, item))
    if struct == "TopicData":
        return sorted(items)
    if struct == "Assignment":
        return sorted(items, key=lambda item: names.ids.get(item.topic_id, "T~"))
    if (struct, field) == ("TopicPartitions", "partitions"):
        return sorted(items)
    if (struct, field) == ("Member", "subscribed_topic_names"):
        return sorted(items, key=names.as_recorded)
    if struct == "DescribeLogDirsTopic":
        return sorted(items, key=lambda item: item.partition_index)
    if struct == "ListConfigResourcesResponse":
        return sorted(items, key=lambda item: (item.resource_type, names.as_recorded(item.resource_name)))
    if field in ("topics", "topic_results", "results_by_topic_v3_and_below"):
        name = "topic" if struct == "TransactionState" else "name"
        return sorted(items, key=lambda item: names.as_recorded(getattr(item, name)))
    if struct == "ListTransactionsResponse":
        return [item for item in items if item.transactional_id.startswith(f"{names.prefix}.")]
    if struct == "ListGroupsResponse":
        own = [item for item in items if item.group_id.startswith(f"{names.prefix}.")]
        return sorted(own, key=lambda item: item.group_id)

    def rank(member: Any) -> tuple[Any, ...]:
        known = names.ids.get(member.member_id, "M~")
        told = (
            getattr(member, name, "") or "" for name in ("group_instance_id", "instance_id", "client_id", "client_host")
        )
        metadata = getattr(member, "metadata", None) or getattr(member, "member_metadata", b"")
        return (len(known), known, *told, metadata)

    return sorted(items, key=rank)


def _share_rank(names: Names, item: Any) -> tuple[Any, ...]:
    """Return the rank of a partition or topic in a response about a share group."""
    if hasattr(item, "partition_index"):
        return (item.partition_index,)
    return names.as_recorded(getattr(item, "topic_name", "")), names.ids.get(item.topic_id, "T~")


def parts(names: Names, message: Any) -> list[Any]:
    """Return (name, value) of each field that does not have its default. Ids are numbered first in fields that are not
    lists.
    """
    schema = schema_of(type(message))
    shown = [
        field
        for field in schema.fields
        if getattr(message, field.name) != field.fresh_default()
        or (field.name in ALWAYS_SHOWN and names.version in field.versions)
        or (field.name == "producer_id" and message.producer_id == 0 and not getattr(message, "error_code", 0))
    ]
    nodes: dict[str, Node] = {}
    for field in sorted(shown, key=lambda field: (field.type.kind == "array", field.name != "member_id")):
        nodes[field.name] = names.field(field, getattr(message, field.name), schema.name)
    return [(field.name, nodes[field.name]) for field in shown if nodes[field.name] != NO_GROUPS]


def rendered(names: Names, message: Any, version: int) -> list[str]:
    """Return a response as lines of a story, as few as possible."""
    names.news.clear()
    names.version = version
    fields = parts(names, message)
    if not fields:
        return ["(all fields at their defaults)"]
    return [line for lines in filled(fields) for line in lines] + names.news
