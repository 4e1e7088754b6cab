"""Every public method of kafka-python's admin client; kafka_python_program.py runs it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import admin as kafka_admin
from kafka.admin import ConfigResource, MemberToRemove, OffsetSpec
from surface import PREFIX, SPREADING_S, TIMEOUT_S, Surface, by_name, shape, until

TOPIC = f"{PREFIX}-admin"
GROUP, BUSY, STATIC = f"{PREFIX}-admin-group", f"{PREFIX}-busy", f"{PREFIX}-static"
ABSENT = f"{PREFIX}-absent"
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)

ERROR_TEXT = re.compile(r"^\[Error \d+\] (\w+)")


def error_name(error: BaseException) -> str:
    return type(error).__name__


surface = Surface("admin", KafkaAdminClient, error_name)
call, local = surface.call, surface.local


def texts(value: Any) -> Any:
    """The shape, with errors that the client makes a text of by their names."""
    if isinstance(value, dict):
        return {name: texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [texts(each) for each in value]
    found = ERROR_TEXT.match(value) if isinstance(value, str) else None
    return found[1] if found else value


def administer(address: Mapping[str, Any]) -> None:
    admin = KafkaAdminClient(**address)
    local("__enter__", admin.__enter__)
    call("get_broker_version_data", lambda: admin.get_broker_version_data(0).broker_version)
    topics(admin)
    records(admin, address)
    configs(admin)
    cluster(admin)
    groups(admin, address)
    transactions(admin, address)
    not_only_ours(admin)
    call("delete_topics", lambda: admin.delete_topics([TOPIC]))
    call("delete_topics", lambda: admin.delete_topics([ABSENT]), "absent")
    call("close", admin.close)
    surface.finish()


def own(topics: Any, name: str) -> list[Any]:
    return [each for each in by_name(topics, name) if each[name].startswith(PREFIX)]


def topics(admin: KafkaAdminClient) -> None:
    new = {TOPIC: {"num_partitions": 2, "replication_factor": 1, "configs": {"max.message.bytes": "2000000"}}}
    call("create_topics", lambda: admin.create_topics(new))
    call("create_topics", lambda: admin.create_topics(new), "exists")
    call("create_topics", lambda: admin.create_topics(new, raise_errors=False), "exists, not raised")
    call(
        "create_topics", lambda: admin.create_topics([f"{PREFIX}-defaults"], validate_only=True), "validated, defaults"
    )
    call("create_topics", lambda: admin.create_topics(["no/name"]), "a wrong name")
    manual = {f"{PREFIX}-manual": {"assignments": {0: [0], 1: [0]}}}
    call("create_topics", lambda: admin.create_topics(manual, wait_for_metadata=True), "assigned by hand")
    wide = {f"{PREFIX}-wide": {"num_partitions": 1, "replication_factor": 2}}
    call("create_topics", lambda: admin.create_topics(wide), "two replicas")
    wrong = {f"{PREFIX}-wrong": {"configs": {"no.such.config": "1"}}}
    call("create_topics", lambda: admin.create_topics(wrong), "no such config")
    call("wait_for_topics", lambda: admin.wait_for_topics([TOPIC]))
    call("list_topics", lambda: sorted(each for each in admin.list_topics() if each.startswith(PREFIX)))
    call("describe_topics", lambda: own(admin.describe_topics([TOPIC]), "name"))
    call("describe_topics", lambda: own(admin.describe_topics([ABSENT]), "name"), "absent")
    call("describe_topics", lambda: [each["name"] for each in own(admin.describe_topics(), "name")], "all")
    call("describe_topic_partitions", lambda: admin.describe_topic_partitions([TOPIC]))
    call("describe_topic_partitions", lambda: admin.describe_topic_partitions([TOPIC], 1), "one at a time")
    call("create_partitions", lambda: admin.create_partitions({TOPIC: 3}).to_dict())
    call("create_partitions", lambda: admin.create_partitions({TOPIC: 1}).to_dict(), "fewer")
    call(
        "create_partitions",
        lambda: admin.create_partitions({TOPIC: {"count": 4, "assignments": [[0]]}}).to_dict(),
        "by hand",
    )
    call("create_partitions", lambda: admin.create_partitions({ABSENT: 3}).to_dict(), "absent")


def records(admin: KafkaAdminClient, address: Mapping[str, Any]) -> None:
    producer = KafkaProducer(**address)
    for number in range(5):
        producer.send(TOPIC, b"value", partition=0, timestamp_ms=1000 + number).get(TIMEOUT_S)
    producer.close()
    call("delete_records", lambda: admin.delete_records({FIRST: 2}))
    call("delete_records", lambda: admin.delete_records({FIRST: 99}), "beyond the end")
    for spec in OffsetSpec:
        offsets = {FIRST: spec, SECOND: spec}
        call("list_partition_offsets", lambda o=offsets: admin.list_partition_offsets(o), spec.name.lower())
    call("list_partition_offsets", lambda: admin.list_partition_offsets({FIRST: 1003}), "by time")
    call("describe_log_dirs", lambda: log_dirs(admin.describe_log_dirs([TOPIC])))
    call("describe_log_dirs", lambda: bool(admin.describe_log_dirs()), "of all")


def log_dirs(described: Any) -> Any:
    """Without paths and sizes of volumes, which are each broker's own."""
    kept = []
    for broker in shape(described):
        for each in broker["log_dirs"] if "log_dirs" in broker else broker["results"]:
            fields = {"error_code": each["error_code"], "is_cordoned": each["is_cordoned"], "names": sorted(each)}
            topics = [
                {**topic, "partitions": by_name(topic["partitions"], "partition_index")} for topic in each["topics"]
            ]
            kept.append(fields | {"topics": topics})
    return kept


def configs(admin: KafkaAdminClient) -> None:
    topic, absent = ConfigResource("topic", TOPIC), ConfigResource("topic", ABSENT)
    broker, group = ConfigResource("broker", "0"), ConfigResource("group", GROUP)
    call("describe_configs", lambda: admin.describe_configs([topic]))
    call("describe_configs", lambda: admin.describe_configs([topic], config_filter="all"), "all of a topic")
    one = ConfigResource("topic", TOPIC, ["max.message.bytes"])
    call("describe_configs", lambda: admin.describe_configs([one], include_synonyms=True), "with synonyms")
    call("describe_configs", lambda: admin.describe_configs([absent]), "absent")
    call(
        "describe_configs",
        lambda: sorted(admin.describe_configs([broker], config_filter="all")["broker"]["0"]),
        "of a broker",
    )
    some = ConfigResource(
        "broker", "0", ["num.partitions", "offsets.retention.minutes", "group.max.session.timeout.ms"]
    )
    call("describe_configs", lambda: admin.describe_configs([some], config_filter="all"), "some of a broker")
    call("describe_configs", lambda: admin.describe_configs([group], config_filter="all"), "of a group")

    def changed(kind: str, name: str, values: Any, **how: Any) -> Any:
        return texts(shape(admin.alter_configs([ConfigResource(kind, name, values)], **how)))

    call("alter_configs", lambda: changed("topic", TOPIC, {"retention.ms": "1000000"}))
    call("alter_configs", lambda: changed("topic", TOPIC, {"retention.ms": "x"}), "a wrong value")
    call("alter_configs", lambda: changed("topic", TOPIC, {"no.such": "x"}, raise_on_unknown=False), "no such config")
    call("alter_configs", lambda: changed("topic", TOPIC, {"cleanup.policy": ("append", "compact")}), "appended")
    whole = {"retention.bytes": "1000000"}
    call("alter_configs", lambda: changed("topic", TOPIC, whole, incremental=False), "not incremental")
    call("alter_configs", lambda: changed("topic", TOPIC, {"retention.ms": "5"}, validate_only=True), "validated")
    call("alter_configs", lambda: changed("broker", "0", {"log.cleaner.threads": "1"}), "of a broker")
    seconds = {"consumer.session.timeout.ms": "50000"}
    call("alter_configs", lambda: changed("group", GROUP, seconds, raise_on_unknown=False), "of a group")
    time.sleep(SPREADING_S)
    call("describe_configs", lambda: admin.describe_configs([topic]), "altered")
    reset = ConfigResource("topic", TOPIC, ["retention.ms"])
    call("reset_configs", lambda: texts(shape(admin.reset_configs([reset]))))
    time.sleep(SPREADING_S)
    call("describe_configs", lambda: admin.describe_configs([topic]), "reset")
    call("list_config_resources", lambda: own_resources(admin.list_config_resources()))
    call("list_config_resources", lambda: own_resources(admin.list_config_resources(["topic"])), "topics")


def own_resources(listed: Any) -> Any:
    return {kind: sorted(name for name in names if name.startswith(PREFIX)) for kind, names in listed.items()}


def cluster(admin: KafkaAdminClient) -> None:
    call("describe_cluster", lambda: shape(admin.describe_cluster()))
    call("api_versions", lambda: shape(admin.api_versions()))
    call("describe_features", lambda: shape(admin.describe_features()))
    call("describe_metadata_quorum", lambda: sorted(shape(admin.describe_metadata_quorum())))
    call("update_features", lambda: texts(shape(admin.update_features({"no.such": 1}))))
    call("elect_leaders", lambda: admin.elect_leaders(0, {TOPIC: [0]}, raise_errors=False).to_dict())
    call("elect_leaders", lambda: admin.elect_leaders(0, [ABSENT], raise_errors=False).to_dict(), "absent")
    call("list_partition_reassignments", lambda: admin.list_partition_reassignments())
    call("alter_partition_reassignments", lambda: admin.alter_partition_reassignments({FIRST: [0]}))
    call("alter_replica_log_dirs", lambda: admin.alter_replica_log_dirs({(TOPIC, 0, 0): "/absent"}))


def groups(admin: KafkaAdminClient, address: Mapping[str, Any]) -> None:
    offsets = {FIRST: OffsetAndMetadata(3, "note", -1), SECOND: OffsetAndMetadata(0, "", -1)}
    call("alter_group_offsets", lambda: admin.alter_group_offsets(GROUP, offsets))
    call("list_group_offsets", lambda: admin.list_group_offsets(GROUP))
    call("list_group_offsets", lambda: admin.list_group_offsets({GROUP: [FIRST, TopicPartition(ABSENT, 0)]}), "of some")
    call("list_group_offsets", lambda: admin.list_group_offsets(ABSENT), "absent")
    specs = {FIRST: OffsetSpec.LATEST, SECOND: 7}
    call("reset_group_offsets", lambda: admin.reset_group_offsets(GROUP, specs))
    call("delete_group_offsets", lambda: admin.delete_group_offsets(GROUP, [SECOND]))
    call("describe_groups", lambda: admin.describe_groups([GROUP]))
    call("describe_groups", lambda: texts(shape(admin.describe_groups([ABSENT]))), "absent")

    members = {group: KafkaConsumer(TOPIC, group_id=group, **address, **more) for group, more in MEMBERS.items()}
    for member in members.values():
        until(lambda m=member: m.poll(2_000) or m.assignment())
    call("describe_groups", lambda: admin.describe_groups([BUSY]), "with a member")
    call("describe_groups", lambda: admin.describe_groups([STATIC]), "with a static member")
    call("list_groups", lambda: own(admin.list_groups(), "group_id"))
    call("list_groups", lambda: own(admin.list_groups(states_filter=["stable"]), "group_id"), "by state")
    call("list_groups", lambda: own(admin.list_groups(types_filter=["consumer"]), "group_id"), "by type")
    call("alter_group_offsets", lambda: admin.alter_group_offsets(BUSY, offsets), "with a member")
    call("delete_group_offsets", lambda: admin.delete_group_offsets(BUSY, [FIRST]), "with a member")
    call("delete_groups", lambda: admin.delete_groups([BUSY]), "with a member")
    removed = MemberToRemove(group_instance_id=f"{PREFIX}-instance", reason="a test")
    call("remove_group_members", lambda: list(admin.remove_group_members(STATIC, [removed]).values()))
    call("remove_group_members", lambda: list(admin.remove_group_members(BUSY, [removed]).values()), "absent")
    for member in members.values():
        member.close()
    call("delete_groups", lambda: admin.delete_groups([GROUP]))
    call("delete_groups", lambda: admin.delete_groups([ABSENT]), "absent")


MEMBERS: Mapping[str, Mapping[str, Any]] = {BUSY: {}, STATIC: {"group_instance_id": f"{PREFIX}-instance"}}


def transactions(admin: KafkaAdminClient, address: Mapping[str, Any]) -> None:
    name = f"{PREFIX}-transaction"
    producer = KafkaProducer(**address, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"open", b"key", partition=1).get(TIMEOUT_S)
    call("list_transactions", lambda: own(admin.list_transactions()[0], "transactional_id"))
    call("list_transactions", lambda: own(filtered(admin), "transactional_id"), "by state and pattern")
    call("describe_transactions", lambda: admin.describe_transactions([name]))
    call("describe_transactions", lambda: admin.describe_transactions([ABSENT]), "absent")
    described = call("describe_producers", lambda: admin.describe_producers([SECOND]))
    call("find_hanging_transactions", lambda: [each for each in admin.find_hanging_transactions() if name in str(each)])
    if described:
        open_one = described[SECOND].active_producers[0]
        spec = kafka_admin.AbortTransactionSpec(SECOND, open_one.producer_id, open_one.producer_epoch)
        call("abort_transaction", lambda: admin.abort_transaction(spec))
    producer.close(timeout=TIMEOUT_S)


def filtered(admin: KafkaAdminClient) -> Any:
    pattern = f"^{PREFIX}.*"
    return admin.list_transactions(state_filters=["Ongoing"], duration_filter_ms=0, transactional_id_pattern=pattern)[0]


def not_only_ours(admin: KafkaAdminClient) -> None:
    """Who may do what."""
    pattern = kafka_admin.ResourcePattern(kafka_admin.ResourceType.TOPIC, TOPIC)
    operation, permission = kafka_admin.ACLOperation.READ, kafka_admin.ACLPermissionType.ALLOW
    rule = kafka_admin.ACL("User:alice", "*", operation, permission, pattern)
    wanted = kafka_admin.ACLFilter("User:alice", "*", operation, permission, pattern)
    call("create_acls", lambda: admin.create_acls([rule]))
    call("describe_acls", lambda: admin.describe_acls(wanted))
    call("delete_acls", lambda: admin.delete_acls([wanted]))
    secret = kafka_admin.UserScramCredentialUpsertion(f"{PREFIX}-user", "SCRAM-SHA-256", "secret", 4096)
    call("alter_user_scram_credentials", lambda: admin.alter_user_scram_credentials([secret]))
    call("describe_user_scram_credentials", lambda: admin.describe_user_scram_credentials([f"{PREFIX}-user"]))
