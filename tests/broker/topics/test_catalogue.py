"""Topics survive a restart as they were, whatever the process was doing when it died."""

from __future__ import annotations

import contextlib
import json

import pytest

from coordinatord.base.config import Settings
from coordinatord.base.topic_names import MAX_TOPIC_CHARACTERS
from coordinatord.broker.log import LogDamaged
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash
from coordinatord.broker.topics.catalogue import internal_configs
from coordinatord.broker.topics.names import why_invalid
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from tests.broker.topics.world import PATH, World, batch, produce


@pytest.mark.parametrize("name", ["a", "orders.v1", "with_underscore", "UPPER-lower-9", "x" * MAX_TOPIC_CHARACTERS])
def test_names_that_can_be(name: str) -> None:
    assert why_invalid(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("x" * 250, f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            "a\n",
            "Topic name is invalid: 'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            "caf\u00e9",
            "Topic name is invalid: 'caf\u00e9' contains one or more characters other than ASCII alphanumerics, '.', "
            "'_' and '-'",
        ),
    ],
)
def test_names_that_cannot(name: str, reason: str) -> None:
    # The sentences are those of Kafka's Topic.validate.
    assert why_invalid(name) == reason


def test_a_restart_keeps_ids_partitions_and_settings() -> None:
    world = World()
    topic_id = world.create("orders", 3, retention_ms="1000")
    offsets_id = world.topics.topic_id("__consumer_offsets")
    world.produce("orders", batch(b"one", b"two"), partition=2)
    world.stop()
    world.open()
    topics = world.topics
    assert topics.topic_id("orders") == topic_id
    assert topics.topic_name(topic_id) == "orders"
    assert topics.exists("orders", 2)
    assert not topics.exists("orders", 3)
    assert not topics.exists("orders", -1)
    assert not topics.exists("other", 0)
    assert topics.topic_id("__consumer_offsets") == offsets_id
    topic = topics.catalogue.by_name["orders"]
    assert topic.configs.own == {"retention.ms": "1000"}
    assert topic.partitions[2].log.end_offset == 2
    assert topic.partitions[2].log.config.retention_ms == 1000


def test_the_offsets_topic_has_kafkas_settings() -> None:
    assert internal_configs(Settings(), "__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 << 20),
    }


def test_the_offsets_topic_keeps_the_partitions_it_was_made_with() -> None:
    world = World(offsets_topic_num_partitions=7)
    world.stop()
    again = World(world.disk, offsets_topic_num_partitions=50)
    assert again.topics.internal("__consumer_offsets").count() == 7
    assert not again.topics.exists("__consumer_offsets", 7)
    assert again.topics.kept_partitions() == [("offsets.topic.num.partitions", 50, 7)]
    assert world.topics.kept_partitions() == []


def test_a_partition_costs_no_files_before_its_first_record() -> None:
    world = World()
    world.create("orders", 100)
    assert not [name for name in world.disk.listdir("/data") if name.startswith(("orders-", "__consumer_offsets-"))]
    world.produce("orders", batch(b"one"), partition=42)
    assert [name for name in world.disk.listdir("/data") if name.startswith("orders-")] == ["orders-42"]


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_crashed_in_any_step_of_a_creation_there_is_all_of_the_topic_or_nothing(kind: CrashKind) -> None:
    request = CreateTopicsRequest([CreatableTopic("orders", 4, 1)])
    steps = 0
    while True:
        world = World()
        world.disk.crash_after = world.disk.operations + steps
        try:
            world.send(19, 7, request)
        except SimulatedCrash:
            world.crash(kind)
            world.open()
            there = [world.topics.exists("orders", index) for index in range(4)]
            assert there in ([True] * 4, [False] * 4), steps
            steps += 1
            continue
        break
    assert steps > 3


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_crashed_in_any_step_of_the_first_write_nothing_half_made_stays(kind: CrashKind, deleted: bool) -> None:
    """A partition's directory is made by its first write. `deleted`: the topic goes in the next life."""
    steps = half_made = 0
    while True:
        world = World()
        world.create("orders", 2)
        world.disk.crash_after = world.disk.operations + steps
        context = world.send(0, 9, produce("orders", batch(b"one"), partition=1))
        with contextlib.suppress(SimulatedCrash):
            world.settle()
        if not world.disk.crashed and context.answers:
            break
        world.crash(kind)
        half_made += world.disk.is_dir("/data/orders-1")
        world.open()
        log = world.topics.catalogue.by_name["orders"].partitions[1].log
        assert log.on_disk == world.disk.is_dir("/data/orders-1"), steps
        if deleted:
            world.call(20, 5, DeleteTopicsRequest([], ["orders"]))
        else:
            assert world.produce("orders", batch(b"two"), partition=1).error_code == 0
        world.stop()
        world.open()
        made = [name for name in world.disk.listdir("/data") if name.startswith("orders-")]
        assert made == ([] if deleted else ["orders-1"]), steps
        steps += 1
    assert steps > 10
    assert half_made > 3


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_crashed_in_any_step_of_a_deletion_the_topic_is_there_or_gone_for_good(kind: CrashKind) -> None:
    steps = 0
    while True:
        world = World()
        old_id = world.create("orders", 2)
        world.produce("orders", batch(b"old"))
        world.disk.crash_after = world.disk.operations + steps
        try:
            world.send(20, 5, DeleteTopicsRequest([], ["orders"]))
        except SimulatedCrash:
            world.crash(kind)
            world.open()
            if world.topics.exists("orders", 0):
                assert world.topics.topic_id("orders") == old_id
                assert world.topics.catalogue.by_name["orders"].partitions[0].log.end_offset == 1
            else:
                assert world.create("orders", 2) != old_id
                assert world.topics.catalogue.by_name["orders"].partitions[0].log.end_offset == 0
            steps += 1
            continue
        break
    assert steps > 3


def test_a_topic_made_anew_has_another_id_and_no_records() -> None:
    world = World()
    old_id = world.create("orders")
    world.produce("orders", batch(b"old"))
    world.call(20, 5, DeleteTopicsRequest([], ["orders"]))
    assert world.deleted == [("orders", old_id)]
    assert world.topics.topic_name(old_id) is None
    new_id = world.create("orders")
    assert new_id != old_id
    assert world.produce("orders", batch(b"new")).base_offset == 0
    world.stop()
    world.open()
    assert world.topics.topic_id("orders") == new_id
    assert world.topics.catalogue.by_name["orders"].partitions[0].log.end_offset == 1


def test_a_directory_that_somebody_put_there_is_taken_in() -> None:
    world = World()
    topic_id = world.create("orders", 3)
    world.produce("orders", batch(b"one"), partition=1)
    world.stop()
    world.disk.unlink("/data/topics.json")
    world.open()
    assert world.topics.topic_id("orders") == topic_id
    assert [world.topics.exists("orders", index) for index in range(3)] == [True, True, False]


def test_a_directory_that_somebody_put_there_later_is_not_taken_in() -> None:
    """By its number alone it would give the topic more partitions, and each group another one of them."""
    world = World(offsets_topic_num_partitions=50)
    world.create("orders", 3)
    world.produce("orders", batch(b"one"), partition=1)
    world.stop()
    for name in ("__consumer_offsets-99", "orders-2024", "backup-1"):
        world.disk.makedirs(f"{PATH}/{name}")
        for file in ("partition.metadata", f"{0:020d}.log"):
            world.disk.open(f"{PATH}/{name}/{file}", create=True)
            world.disk.content(f"{PATH}/{name}/{file}")[:] = world.disk.content(f"{PATH}/orders-1/{file}")
    world.open()
    assert {topic.name: len(topic.partitions) for topic in world.topics.catalogue} == {
        "__consumer_offsets": 50, "orders": 3,
    }  # fmt: skip
    strays = {name.partition(".")[0] for name in world.disk.listdir(PATH) if name.endswith("-stray")}
    assert strays == {"__consumer_offsets-99", "orders-2024", "backup-1"}
    assert world.topics.catalogue.by_name["orders"].partitions[1].log.end_offset == 1


def test_a_catalogue_that_is_damaged_refuses_to_start() -> None:
    world = World()
    world.create("orders")
    world.stop()
    content = world.disk.content("/data/topics.json")
    content[:] = content[:-20]
    with pytest.raises(LogDamaged, match=r"/data/topics\.json is damaged"):
        world.open()


def test_a_directory_of_another_topic_id_refuses_to_start() -> None:
    world = World()
    world.create("orders")
    world.produce("orders", batch(b"one"))
    world.stop()
    content = world.disk.content("/data/topics.json")
    stored = json.loads(content.decode())
    stored["topics"]["orders"]["id"] = "AAAAAAAAAAAAAAAAAAAAAg"
    content[:] = json.dumps(stored).encode()
    with pytest.raises(LogDamaged, match=r"orders-0 is damaged.*its topic id is"):
        world.open()


def test_a_disk_that_is_full_changes_nothing() -> None:
    world = World()
    world.create("orders")
    world.disk.capacity = world.disk.used()
    response = world.call(19, 7, CreateTopicsRequest([CreatableTopic("more", 1, 1)]))
    assert response.topics[0].error_code == 56
    assert not world.topics.exists("more", 0)
    world.disk.capacity = None
    world.create("more")


def test_a_file_from_before_changes_were_counted_is_read() -> None:
    world = World()
    topic_id = world.create("orders")
    world.stop()
    path = f"{PATH}/topics.json"
    content = json.loads(bytes(world.disk.content(path)))
    del content["change"]
    content["deleting"] = ["AAAAAAAAAAAAAAAAAAAAAg"]
    world.disk.content(path)[:] = json.dumps(content).encode()
    world.open()
    assert world.topics.topic_id("orders") == topic_id
    assert world.create("payments")
    world.stop()
    world.open()
    assert world.topics.exists("payments", 0)


@pytest.mark.parametrize("name", ["topics.json", "groups.json", "producer_ids.json"])
def test_a_file_of_brackets_is_damage_and_no_bug(name: str) -> None:
    """A parser may run out of stack."""
    world = World()
    world.create("orders")
    world.stop()
    file = world.disk.open(f"{PATH}/{name}", create=True)
    file.truncate(0)
    file.pwrite(b"[" * 200_000, 0)
    with pytest.raises(LogDamaged, match=name):
        world.open()
