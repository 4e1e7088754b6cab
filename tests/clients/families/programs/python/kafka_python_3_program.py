"""kafka-python 3.x."""

from __future__ import annotations

import sys

import kafka.errors
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from kafka_python import run
from line_protocol import ARGUMENTS, numbers, pairs, parsed_pairs, say


def raise_first(errors: dict[TopicPartition, type[KafkaError]]) -> None:
    for error in errors.values():
        if error.errno:
            raise error()


def described(group: dict[str, object]) -> str:
    owned = [
        partition
        for member in group["members"]
        for topic in member["member_assignment"]["assigned_partitions"]
        for partition in topic["partitions"]
    ]
    return f"{group['group_state']} {len(group['members'])} {numbers(owned)}"


def answer(admin: KafkaAdminClient, verb: str, words: list[str]) -> str:
    """The rest of an OK line."""
    if verb == "list":
        return " ".join(each["group_id"] for each in admin.list_groups())
    group = words[0]
    if verb == "describe":
        return described(admin.describe_groups([group])[group])
    if verb == "offsets":
        answered = admin.list_group_offsets([group])[group]
        return pairs({each.partition: offset.offset for each, offset in answered.items()})
    if verb == "alter":
        offsets = parsed_pairs(words[2]).items()
        wanted = {TopicPartition(words[1], number): OffsetAndMetadata(offset, "", -1) for number, offset in offsets}
        raise_first(admin.alter_group_offsets(group, wanted))
        return ""
    if verb == "delete-offsets":
        partitions = [TopicPartition(words[1], int(number)) for number in words[2].split(",")]
        raise_first(admin.delete_group_offsets(group, partitions))
        return ""
    assert verb == "delete", verb
    outcome = admin.delete_groups([group])[group]
    if outcome != "OK":
        raise getattr(kafka.errors, outcome)()
    return ""


def administer() -> None:
    admin = KafkaAdminClient(bootstrap_servers=ARGUMENTS["bootstrap"])
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            say("OK", answer(admin, verb, words))
        except KafkaError as error:
            say("ERROR", error.errno, repr(error))
    admin.close()


run(administer)
