"""The state of share partitions, which the share coordinator creates and deletes at the request of the group.

Each change is logged in one record before the share coordinator is asked, and another record says that it is done. If
it fails, a later heartbeat asks again for what the members subscribe to, after `initialize.retry.interval.ms`.

Admin tools set the start offsets of a group without members (AlterShareGroupOffsets), or delete its state of some
topics (DeleteShareGroupOffsets) or of all, with the group (DeleteGroups).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.events import TopicDeleted
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.share.events import ShareStateCreated
from coordinatord.coordination.group.share.records import UNKNOWN_NAME, in_order, partitions_record
from coordinatord.coordination.group.share.state import (
    NewState,
    ShareGroup,
    StatePartitions,
    StateTopics,
    limits_of,
)
from coordinatord.coordination.group.state import Group

Named = Mapping[bytes, tuple[str, frozenset[int]]]
"""Topic id -> name, partitions."""


def initialize(
    group: Group, share: ShareGroup, surroundings: GroupEnvironment, now_ms: int, result: Result
) -> tuple[NewState, ...]:
    """Return the subscribed partitions that have no state, unless it is being created, and log that they will have."""
    topics, now = surroundings.topics, share.partitions or StatePartitions()
    is_late = now_ms - share.partitions_ms >= limits_of(surroundings).initialize_retry_interval_ms
    checked = group.version, topics.version
    if share.checked == checked and not (is_late and now.initializing):
        return ()  # nearly always, and a member may name ten thousand topics
    missing: dict[bytes, tuple[str, frozenset[int]]] = {}
    for name in sorted(share.subscribed_topics()):
        topic = topics.find(name)
        if topic is None:
            continue
        there = _partitions(now.initialized, topic.topic_id)
        if not is_late and topic.topic_id in now.initializing:
            there |= _partitions(now.initializing, topic.topic_id)
        if len(there) < topic.partitions:
            missing[topic.topic_id] = name, frozenset(range(topic.partitions)) - there
    if not missing:
        share.checked = checked
        return ()
    begin(group, share, topics, missing, now_ms, result)
    return tuple(
        NewState(topic_id, partition, share.epoch)
        for topic_id, (_, partitions) in in_order(missing).items()
        for partition in sorted(partitions)
    )


def begin(group: Group, share: ShareGroup | None, topics: Topics, created: Named, now_ms: int, result: Result) -> None:
    """Log that the state of these partitions will be created. The record creates the group if there is none."""
    now = (None if share is None else share.partitions) or StatePartitions()
    initializing = merged(now.initializing, created)
    deleting = tuple(topic_id for topic_id in now.deleting if topic_id not in initializing)
    put(group, share, topics, replace(now, initializing=initializing, deleting=deleting), now_ms, result)


def state_created(group: Group, event: ShareStateCreated, now_ms: int) -> Result:
    """Log that the state of partitions has been created, or could not be."""
    share, surroundings = group.share, group.surroundings
    if share is None or surroundings is None or not event.partitions:
        return NOTHING
    topics = surroundings.topics
    now = share.partitions or StatePartitions()
    if not event.succeeded and not now.initializing:
        return NOTHING
    named: dict[bytes, tuple[str, frozenset[int]]] = {}
    for topic_id, partitions in event.partitions.items():
        topic = topics.find_id(topic_id)
        named[topic_id] = UNKNOWN_NAME if topic is None else topic.name, frozenset(partitions)
    initializing = without(now.initializing, event.partitions)
    initialized = merged(now.initialized, named) if event.succeeded else now.initialized
    result = Result()
    put(group, share, topics, StatePartitions(initializing, initialized, now.deleting), now_ms, result)
    return result


def topic_deleted(group: Group, event: TopicDeleted, now_ms: int) -> Result:
    """Forget a deleted topic; the share coordinator deletes its state of this topic by itself."""
    share, surroundings, topic_id = group.share, group.surroundings, event.topic_id
    if share is None or surroundings is None or share.partitions is None:
        return NOTHING
    now = share.partitions
    if topic_id not in now.initializing and topic_id not in now.initialized and topic_id not in now.deleting:
        return NOTHING
    after = StatePartitions(
        {each: named for each, named in now.initializing.items() if each != topic_id},
        {each: named for each, named in now.initialized.items() if each != topic_id},
        tuple(each for each in now.deleting if each != topic_id),
    )
    result = Result()
    put(group, share, surroundings.topics, after, now_ms, result)
    return result


def put(
    group: Group, share: ShareGroup | None, topics: Topics, partitions: StatePartitions, now_ms: int, result: Result
) -> None:
    """Log the topics that have state. The record creates the group if there is none."""
    write(group, *partitions_record(group.group_id, partitions, topics), result)
    share = share or group.share
    assert share is not None
    share.partitions_ms = now_ms


def merged(one: StateTopics, other: Named) -> StateTopics:
    """Return the topics and partitions of both; the names of the second one count (`combineInitMaps`)."""
    found: dict[bytes, tuple[str, frozenset[int]]] = dict(one)
    for topic_id, (name, partitions) in other.items():
        found[topic_id] = name, _partitions(one, topic_id) | partitions
    return in_order(found)


def without(topics: StateTopics, gone: Mapping[bytes, frozenset[int]]) -> StateTopics:
    """Return the topics without these partitions, and without topics that have none left."""
    left = {
        topic_id: (each.name, each.partitions - gone.get(topic_id, frozenset())) for topic_id, each in topics.items()
    }
    return in_order({topic_id: named for topic_id, named in left.items() if named[1]})


def _partitions(topics: StateTopics, topic_id: bytes) -> frozenset[int]:
    found = topics.get(topic_id)
    return frozenset() if found is None else found.partitions
