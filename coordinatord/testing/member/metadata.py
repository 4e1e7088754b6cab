"""Metadata requests: their topics, and when to repeat them."""

from __future__ import annotations

from coordinatord.testing.member.cluster import Cluster
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import ANY_NODE, Send
from coordinatord.testing.member.state import Member
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


def maintain(member: Member, now_ms: int, result: Result) -> None:
    """Request metadata if something is missing or wrong, a topic is new, or the metadata has expired."""
    if member.metadata_send is not None:
        return
    due_ms = member.metadata_expires_ms
    if member.metadata_wanted or not _topics(member) <= member.cluster.asked:
        due_ms = member.metadata_again_ms
    if now_ms >= due_ms:
        _ask(member, result)
    else:
        member.wake_at(due_ms)


def watch(member: Member, topics: frozenset[str], result: Result) -> bool:
    """Watch the topics of all members, as a leader does. Return whether all are known; request metadata if not."""
    member.group_subscription = topics
    if topics <= member.cluster.asked and not member.metadata_wanted:
        member.metadata_snapshot = _snapshot(member)
        return True
    if member.metadata_send is None:
        _ask(member, result)
    return False


def received(member: Member, send: Send, response: MetadataResponse | Cluster, now_ms: int, result: Result) -> bool:
    """Handle the response. Return whether it has all topics that a waiting leader needs."""
    cluster = response if isinstance(response, Cluster) else Cluster.of(response)
    member.metadata_send = None
    if cluster.error or not cluster.nodes:  # a starting broker returns no brokers
        failed(member, send, now_ms, result)
        return False
    member.cluster = cluster
    member.metadata_wanted = cluster.incomplete
    if cluster.incomplete:
        member.metadata_again_ms = now_ms + member.backoff.after_ms(member.metadata_attempts)
        member.metadata_attempts += 1
    else:
        member.metadata_again_ms = now_ms + member.settings.retry_backoff_ms
        member.metadata_attempts = 0
    member.metadata_expires_ms = now_ms + member.settings.metadata_max_age_ms
    snapshot = _snapshot(member)
    if snapshot != member.metadata_snapshot:
        member.metadata_snapshot = snapshot
    if member.election is not None and not member.group_subscription <= cluster.asked:
        _ask(member, result)
        return False
    return True


def failed(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a request without a response. A waiting leader retries by itself, other members at their next poll."""
    member.metadata_send = None
    member.metadata_wanted = True
    member.metadata_again_ms = now_ms + member.backoff.after_ms(member.metadata_attempts)
    member.metadata_attempts += 1


def _topics(member: Member) -> frozenset[str]:
    group = member.group_subscription
    return member.subscription | group if group else member.subscription


def _snapshot(member: Member) -> dict[str, object]:
    """Return the input of an assignment: the partition counts or, if the member has a rack, the partitions' racks."""
    rack_matters = bool(member.settings.client_rack)
    known = member.cluster.topics
    return {
        topic: known[topic].racks if rack_matters else len(known[topic].leaders)
        for topic in _topics(member)
        if topic in known
    }


def _ask(member: Member, result: Result) -> None:
    membership = member.membership
    if membership is not None and membership.pattern is not None:
        # Only the coordinator resolves the expression; its assignment has the topics' ids.
        topics = [MetadataRequestTopic(topic_id) for topic_id in membership.target.partitions]
    else:
        topics = [MetadataRequestTopic(name=topic) for topic in sorted(_topics(member))]
    request = MetadataRequest(topics, member.settings.allow_auto_create_topics)
    member.metadata_send = Send(ANY_NODE, False, request, member.settings.request_timeout_ms)
    result.sends.append(member.metadata_send)
