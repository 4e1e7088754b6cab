"""kafka-python 2.x."""

from __future__ import annotations

import sys

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka_python import run
from line_protocol import ARGUMENTS, numbers, pairs, say


def answer(admin: KafkaAdminClient, verb: str, words: list[str]) -> str:
    """The rest of an OK line."""
    if verb == "list":
        return " ".join(group for group, _ in admin.list_consumer_groups())
    group = words[0]
    if verb == "describe":
        (described,) = admin.describe_consumer_groups([group])
        owned = [
            partition
            for member in described.members
            for _, partitions in member.member_assignment.assignment
            for partition in partitions
        ]
        return f"{described.state} {len(described.members)} {numbers(owned)}"
    if verb == "offsets":
        answered = admin.list_consumer_group_offsets(group)
        return pairs({each.partition: offset.offset for each, offset in answered.items()})
    assert verb == "delete", verb
    ((_, error),) = admin.delete_consumer_groups([group])
    if error.errno:
        raise error()
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
