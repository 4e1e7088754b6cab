"""Every public method of confluent-kafka's admin client; confluent_kafka_program.py runs it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec
from confluent_kafka_shapes import error_name, found, told
from surface import PREFIX, SPREADING_S, TIMEOUT_S, Surface, until

NEW, ABSENT = f"{PREFIX}-new", f"{PREFIX}-absent-to-admin"
GROUP, BUSY = f"{PREFIX}-admin-group", f"{PREFIX}-busy"
LIMIT = {"request_timeout": TIMEOUT_S}

surface = Surface("admin", AdminClient, error_name)
call, local = surface.call, surface.local


def results(futures: Any) -> Any:
    """What a call promised: of several, an error is told in its place; of one, it is raised."""
    if not isinstance(futures, dict):
        return told(futures.result(TIMEOUT_S))
    if len(futures) == 1:
        ((_, future),) = futures.items()
        return told(future.result(TIMEOUT_S))
    return told({key: future.exception(TIMEOUT_S) or future.result() for key, future in futures.items()})


def create(address: Mapping[str, Any], *topics: str) -> None:
    admin = AdminClient(address)
    for topic in topics:
        results(admin.create_topics([NewTopic(topic, 2, 1)], **LIMIT))
        until(lambda topic=topic: leaders(admin, topic) == 2)


def leaders(admin: AdminClient, topic: str) -> int:
    """How many partitions have a leader: a controller's answer comes before its brokers know of a topic."""
    partitions = admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    return sum(each.leader >= 0 for each in partitions.values())


def administer(address: Mapping[str, Any], topic: str) -> None:
    admin = AdminClient(address)
    local("__enter__", admin.__enter__)
    call("list_topics", lambda: found(admin.list_topics(timeout=TIMEOUT_S), PREFIX))
    call("cluster_id", lambda: bool(admin.cluster_id(TIMEOUT_S)))
    local("set_sasl_credentials", lambda: admin.set_sasl_credentials("user", "secret"), "kept for the next time")
    local("poll", lambda: admin.poll(0), "calls back")
    topics(admin)
    records(admin, topic)
    configs(admin)
    groups(admin, address, topic)
    cluster(admin, topic)
    rights(admin)
    call("delete_topics", lambda: results(admin.delete_topics([NEW], **LIMIT)))
    call("delete_topics", lambda: results(admin.delete_topics([ABSENT], **LIMIT)), "absent")
    surface.finish()


def topics(admin: AdminClient) -> None:
    def created(*new: NewTopic, **how: Any) -> Any:
        return results(admin.create_topics(list(new), **LIMIT, **how))

    new = NewTopic(NEW, 2, 1, config={"retention.ms": "86400000"})
    call("create_topics", lambda: created(new))
    call("create_topics", lambda: created(new), "exists")
    call("create_topics", lambda: created(new, NewTopic(f"{PREFIX}-second", 1, 1)), "one of two exists")
    call("create_topics", lambda: created(NewTopic("a/b", 1, 1)), "a wrong name")
    call("create_topics", lambda: created(NewTopic(f"{PREFIX}-dry", 1, 1), validate_only=True), "validated")
    call("create_topics", lambda: created(NewTopic(f"{PREFIX}-manual", 2, replica_assignment=[[0], [0]])), "by hand")
    call("create_topics", lambda: created(NewTopic(f"{PREFIX}-wide", 1, 2)), "two replicas")
    call("create_topics", lambda: created(NewTopic(f"{PREFIX}-x", 1, 1, config={"no.such": "1"})), "no such config")
    call("create_partitions", lambda: results(admin.create_partitions([NewPartitions(NEW, 3)], **LIMIT)))
    call("create_partitions", lambda: results(admin.create_partitions([NewPartitions(NEW, 1)], **LIMIT)), "fewer")
    until(lambda: leaders(admin, NEW) == 3)
    names = TopicCollection([NEW])
    call("describe_topics", lambda: results(admin.describe_topics(names, **LIMIT)))
    how = {"include_authorized_operations": True, **LIMIT}
    call("describe_topics", lambda: results(admin.describe_topics(names, **how)), "with operations")
    call("describe_topics", lambda: results(admin.describe_topics(TopicCollection([ABSENT]), **LIMIT)), "absent")


def records(admin: AdminClient, topic: str) -> None:
    first = TopicPartition(topic, 0)
    specs = {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "max timestamp": OffsetSpec.max_timestamp(),
        "by time": OffsetSpec.for_timestamp(1002),
    }
    for name, spec in specs.items():
        call("list_offsets", lambda s=spec: results(admin.list_offsets({first: s}, **LIMIT)), name)
    how = {"isolation_level": IsolationLevel.READ_COMMITTED, **LIMIT}
    call("list_offsets", lambda: results(admin.list_offsets({first: OffsetSpec.latest()}, **how)), "committed")
    call("delete_records", lambda: results(admin.delete_records([TopicPartition(topic, 0, 2)], **LIMIT)))
    beyond = TopicPartition(topic, 0, 99)
    call("delete_records", lambda: results(admin.delete_records([beyond], **LIMIT)), "beyond the end")


def configs(admin: AdminClient) -> None:
    topic, absent = ConfigResource("topic", NEW), ConfigResource("topic", ABSENT)
    broker, group = ConfigResource("broker", "0"), ConfigResource("group", GROUP)
    call("describe_configs", lambda: entries(admin, topic))
    call("describe_configs", lambda: entries(admin, absent), "absent")
    call("describe_configs", lambda: sorted(entries(admin, broker)), "of a broker")
    call("describe_configs", lambda: entries(admin, group), "of a group")

    def altered(kind: str, name: str, values: Mapping[str, str]) -> Any:
        return results(admin.alter_configs([ConfigResource(kind, name, dict(values))], **LIMIT))

    def incrementally(kind: str, name: str, setting: str, value: str, operation: str = "SET", **how: Any) -> Any:
        entry = ConfigEntry(setting, value, incremental_operation=kafka_admin.AlterConfigOpType[operation])
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        return results(admin.incremental_alter_configs([resource], **LIMIT, **how))

    call("alter_configs", lambda: altered("topic", NEW, {"retention.bytes": "1000000"}))
    call("alter_configs", lambda: altered("topic", NEW, {"retention.ms": "x"}), "a wrong value")
    call("alter_configs", lambda: altered("topic", ABSENT, {"retention.ms": "5"}), "absent")
    method = "incremental_alter_configs"
    call(method, lambda: incrementally("topic", NEW, "retention.ms", "1000000"))
    call(method, lambda: incrementally("topic", NEW, "cleanup.policy", "compact", "APPEND"), "appended")
    call(method, lambda: incrementally("topic", NEW, "retention.ms", "5", validate_only=True), "validated")
    call(method, lambda: incrementally("topic", NEW, "no.such", "1"), "no such config")
    call(method, lambda: incrementally("broker", "0", "log.cleaner.threads", "1"), "of a broker")
    call(method, lambda: incrementally("group", GROUP, "consumer.session.timeout.ms", "50000"), "of a group")
    time.sleep(SPREADING_S)
    call("describe_configs", lambda: entries(admin, topic), "altered")


def entries(admin: AdminClient, resource: ConfigResource) -> Any:
    ((_, future),) = admin.describe_configs([resource], **LIMIT).items()
    return {name: told(entry) for name, entry in sorted(future.result(TIMEOUT_S).items())}


def groups(admin: AdminClient, address: Mapping[str, Any], topic: str) -> None:
    offsets = [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 0)]

    def altered(group: str) -> Any:
        return results(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)], **LIMIT))

    def listed(group: str, some: list[TopicPartition] | None = None) -> Any:
        return results(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, some)], **LIMIT))

    call("alter_consumer_group_offsets", lambda: altered(GROUP))
    call("list_consumer_group_offsets", lambda: listed(GROUP))
    some = [TopicPartition(topic, 0), TopicPartition(ABSENT, 0)]
    call("list_consumer_group_offsets", lambda: listed(GROUP, some), "of some")
    call("list_consumer_group_offsets", lambda: listed(ABSENT), "absent")
    member = Consumer({**address, "group.id": BUSY})
    member.subscribe([topic])
    until(lambda: member.poll(0.05) or member.assignment())
    how = {"include_authorized_operations": True, **LIMIT}
    call("describe_consumer_groups", lambda: results(admin.describe_consumer_groups([BUSY], **how)), "with a member")
    call("describe_consumer_groups", lambda: results(admin.describe_consumer_groups([GROUP], **LIMIT)))
    call("describe_consumer_groups", lambda: results(admin.describe_consumer_groups([ABSENT], **LIMIT)), "absent")
    call("list_consumer_groups", lambda: own(results(admin.list_consumer_groups(**LIMIT))))
    stable, classic = {ConsumerGroupState.STABLE}, {ConsumerGroupType.CLASSIC}
    call("list_consumer_groups", lambda: own(results(admin.list_consumer_groups(states=stable, **LIMIT))), "by state")
    call("list_consumer_groups", lambda: own(results(admin.list_consumer_groups(types=classic, **LIMIT))), "by type")
    call("list_groups", lambda: metadata(admin.list_groups(timeout=TIMEOUT_S)))
    call("list_groups", lambda: metadata(admin.list_groups(BUSY, TIMEOUT_S)), "one")
    call("alter_consumer_group_offsets", lambda: altered(BUSY), "with a member")
    call("delete_consumer_groups", lambda: results(admin.delete_consumer_groups([BUSY], **LIMIT)), "with a member")
    member.close()
    call("delete_consumer_groups", lambda: results(admin.delete_consumer_groups([GROUP], **LIMIT)))
    call("delete_consumer_groups", lambda: results(admin.delete_consumer_groups([ABSENT], **LIMIT)), "absent")


def own(listed: Any) -> Any:
    valid = [each for each in listed["valid"] if each["group_id"].startswith(PREFIX)]
    return {"errors": listed["errors"], "valid": sorted(valid, key=lambda each: each["group_id"])}


def metadata(groups: list[Any]) -> Any:
    """GroupMetadata, without what its members wrote."""
    fields = ("id", "error", "state", "protocol_type", "protocol")
    own_groups = sorted((each for each in groups if each.id.startswith(PREFIX)), key=lambda each: each.id)
    return [
        {f"group {f}": told(getattr(each, f)) for f in fields} | {"members": len(each.members)} for each in own_groups
    ]


def cluster(admin: AdminClient, topic: str) -> None:
    call("describe_cluster", lambda: results(admin.describe_cluster(**LIMIT)))
    how = {"include_authorized_operations": True, **LIMIT}
    call("describe_cluster", lambda: results(admin.describe_cluster(**how)), "with operations")
    partitions = [TopicPartition(topic, 0)]
    call("elect_leaders", lambda: results(admin.elect_leaders(ElectionType.PREFERRED, partitions)))
    absent = [TopicPartition(ABSENT, 0)]
    call("elect_leaders", lambda: results(admin.elect_leaders(ElectionType.PREFERRED, absent)), "absent")


def rights(admin: AdminClient) -> None:
    """Who may do what."""
    pattern, allow = kafka_admin.ResourcePatternType.LITERAL, kafka_admin.AclPermissionType.ALLOW
    kind, read = kafka_admin.ResourceType.TOPIC, kafka_admin.AclOperation.READ
    rule = kafka_admin.AclBinding(kind, NEW, pattern, "User:alice", "*", read, allow)
    wanted = kafka_admin.AclBindingFilter(kind, NEW, pattern, "User:alice", "*", read, allow)
    call("create_acls", lambda: results(admin.create_acls([rule], **LIMIT)))
    call("describe_acls", lambda: results(admin.describe_acls(wanted, **LIMIT)))
    call("delete_acls", lambda: results(admin.delete_acls([wanted], **LIMIT)))
    user = f"{PREFIX}-user"
    info = kafka_admin.ScramCredentialInfo(kafka_admin.ScramMechanism.SCRAM_SHA_256, 4096)
    secret = kafka_admin.UserScramCredentialUpsertion(user, info, b"secret")
    call("alter_user_scram_credentials", lambda: results(admin.alter_user_scram_credentials([secret], **LIMIT)))
    call("describe_user_scram_credentials", lambda: results(admin.describe_user_scram_credentials([user], **LIMIT)))
