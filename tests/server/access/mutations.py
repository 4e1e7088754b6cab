"""What takes tokens of controller_mutation_rate, and what is answered without any, recorded from Apache Kafka:
`python -m tests.server.access.mutations`. The quick tests ask our daemon the same.

Each case has a user with a bucket of eleven tokens. Its request may take a hundred. Then a probe tells whether it has:
CreateTopics of one partition is refused while tokens are owed, and they are for more than a minute.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.server.access.cases import SUPER
from tests.server.access.kafka import logged_in, secured_kafka

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-mutations.json"

MANY = 100
SETTINGS = {"num.partitions": str(MANY), "allow.everyone.if.no.acl.found": "true"}

LATER_S = 1.0
"""Kafka's controller makes topics that Metadata names a moment later, all that it makes in one step."""

Connect = Callable[[str], Awaitable[RawClient]]


def _create(*topics: tuple[str, int], validate_only: bool = False, copies: int = 1, **configs: str) -> Any:
    made = [
        CreatableTopic(name, count, copies, configs=[CreatableTopicConfig(*each) for each in configs.items()])
        for name, count in topics
    ]
    return CreateTopicsRequest(made, 10_000, validate_only)


def _grow(*topics: tuple[str, int], validate_only: bool = False) -> Any:
    return CreatePartitionsRequest(
        [CreatePartitionsTopic(name, count, None) for name, count in topics], 10_000, validate_only
    )


def _delete(*names: str) -> Any:
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=10_000)


def _metadata(*names: str) -> Any:
    return MetadataRequest([MetadataRequestTopic(bytes(16), name) for name in names], True)


CASES: tuple[tuple[str, Any, int], ...] = (
    ("nothing", _create(("have-1", 1)), 7),
    ("a topic", _create(("new-1", MANY)), 7),
    ("a topic, of an old client", _create(("new-2", MANY)), 5),
    ("two topics", _create(("new-3", MANY), ("new-4", 1)), 7),
    ("a topic of the default size", _create(("new-5", -1)), 7),
    ("a topic that is only checked", _create(("new-6", MANY), validate_only=True), 7),
    ("a topic that exists", _create(("have-1", MANY)), 7),
    ("a topic of no valid name", _create(("new/7", MANY)), 7),
    ("a topic with an invalid setting", _create(("new-8", MANY), **{"retention.ms": "never"}), 7),
    ("a topic of too many replicas", _create(("new-9", MANY), copies=3), 7),
    ("a topic twice", _create(("new-10", MANY), ("new-10", MANY)), 7),
    ("Metadata", _metadata("auto-1", "auto-2", "auto-3"), 12),
    ("Metadata of an old client", _metadata("auto-4", "auto-5"), 4),
    ("Metadata of what exists, and no valid name", _metadata("have-1", "auto/6"), 12),
    ("more partitions", _grow(("have-1", MANY + 1)), 3),
    ("more partitions, of an old client", _grow(("have-2", MANY + 1)), 2),
    ("more partitions of two", _grow(("have-3", MANY + 1), ("have-4", 2)), 3),
    ("more partitions that are only checked", _grow(("have-5", MANY + 1), validate_only=True), 3),
    ("no more partitions", _grow(("large-1", 1), ("large-2", MANY), ("nowhere", MANY)), 3),
    ("less topics", _delete("large-1", "large-2"), 6),
    ("a topic less, of an old client", DeleteTopicsRequest(topic_names=["large-3"], timeout_ms=10_000), 4),
    ("no topic less", _delete("nowhere", "nothing"), 6),
)


async def prepare(connect: Connect) -> None:
    """Topics that exist, and a quota for each case's user."""
    client = await connect(SUPER)
    topics = [(f"have-{number}", 1) for number in range(1, 6)] + [(f"large-{number}", MANY) for number in range(1, 4)]
    made = await client.ask(_create(*topics), 7)
    assert not any(topic.error_code for topic in made.topics), made
    entries = [
        EntryData([EntityData("user", user(number))], [OpData("controller_mutation_rate", 1.0, False)])
        for number in range(len(CASES) + 1)
    ]
    answered = await client.ask(AlterClientQuotasRequest(entries), 1)
    assert not any(entry.error_code for entry in answered.entries), answered
    client.close()
    client = await connect(user(len(CASES)))
    for _ in range(600):  # until Kafka's controller measures by them
        if (await client.ask(_create(("wait", MANY), validate_only=True), 6)).throttle_time_ms:
            break
        await asyncio.sleep(0.5)
    else:
        raise AssertionError("the quotas have no effect after five minutes")
    client.close()


def user(case: int) -> str:
    """Whose quota a case is about."""
    return f"user-{case}"


USERS = tuple(user(number) for number in range(len(CASES) + 1))


def results(response: Any) -> list[tuple[str, str, str | None]]:
    """(name, error, message) by topic; of deleted topics without names, as Kafka deletes them in the order of random
    ids.
    """
    found = getattr(response, "topics", None) or getattr(response, "responses", None) or response.results
    is_deletion = isinstance(response, DeleteTopicsResponse)
    made = [
        ("" if is_deletion else each.name, ErrorCode(each.error_code).name, getattr(each, "error_message", None))
        for each in found
    ]
    return sorted(made, key=str)


async def outcomes(connect: Connect) -> dict[str, Any]:
    """Case -> what was answered, or how many topics there are then; and whether tokens are owed."""
    await prepare(connect)
    found: dict[str, Any] = {}
    for number, (name, request, version) in enumerate(CASES):
        client = await connect(user(number))
        answer = await client.ask(request, version)
        is_metadata = isinstance(request, MetadataRequest)
        there = await _existing(connect, request) if is_metadata else 0
        owed = await _probe(connect, number)
        found[name] = {
            "results": there if is_metadata else results(answer),
            "throttled": answer.throttle_time_ms > 0,
            "owed": owed,
        }
        client.close()
    return found


async def _probe(connect: Connect, number: int) -> str:
    client = await connect(user(number))
    made = await client.ask(_create((f"probe-{number}", 1), validate_only=True), 5)
    client.close()
    return "yes" if made.throttle_time_ms > 20_000 else "no"


async def _existing(connect: Connect, request: MetadataRequest) -> int:
    """How many of the topics there are: which of them come first is a matter of Kafka's hash tables."""
    client = await connect(SUPER)
    for _ in range(60):
        await asyncio.sleep(LATER_S)
        found = (await client.ask(MetadataRequest(request.topics, False), 12)).topics
        count = sum(not topic.error_code for topic in found)
        if count:
            break
    client.close()
    return count


def recorded() -> dict[str, Any]:
    """Kafka's outcomes."""
    known: dict[str, Any] = json.loads(GOLDEN.read_text())
    return known


def on_kafka() -> dict[str, Any]:
    """Ask Kafka."""
    users = (SUPER, *USERS)
    with tempfile.TemporaryDirectory() as directory, secured_kafka(Path(directory), users, SETTINGS) as broker:
        found = asyncio.run(outcomes(logged_in(broker.port)))
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def main() -> None:
    """Write the golden file."""
    lines = [f"{json.dumps(case)}: {json.dumps(outcome)}" for case, outcome in on_kafka().items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
