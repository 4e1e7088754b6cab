"""One catalogue for several workers: all of them change it, all of them see it, nothing of a deleted topic stays."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinatord.broker.log import DataDirectory
from coordinatord.broker.log.config import LogConfig
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.topics.catalogue_file import read
from coordinatord.broker.topics.shared_catalogue import LOOK_MS, LOOKS
from coordinatord.transport.cluster.shared import Shared
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, Wait, run_through
from kafka_wire.api.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafka_wire.api.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.broker.log.world import PATH
from tests.broker.topics.world import Context, batch, produce
from tests.server.workers.world import FIRST_ID, Workers, WorkerWorld

PARTITIONS = 6


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(3, tmp_path)


def delete(world: WorkerWorld, name: str) -> int:
    response = world.call(20, 3, DeleteTopicsRequest(topic_names=[name]))
    error: int = response.responses[0].error_code
    return error


def directories(workers: Workers, topic: str) -> set[str]:
    return {name for name in workers.disk.listdir(PATH) if name.startswith(f"{topic}-")}


def write(workers: Workers, topic: str, partitions: int) -> None:
    """A record into each partition, by the worker that leads it."""
    for partition in range(partitions):
        for world in workers.worlds:
            if world.topics.catalogue.by_name[topic].partitions[partition].is_here:
                assert world.produce(topic, batch(b"v"), partition).error_code == 0


def test_a_topic_is_known_to_everybody_at_once(workers: Workers) -> None:
    topic_id = workers[1].create("orders", PARTITIONS)
    assert [world.topics.topic_id("orders") for world in workers.worlds] == [topic_id] * 3
    assert workers[2].topics.topic_name(topic_id) == "orders"


def test_one_that_was_asked_for_by_its_number_is_found_too(workers: Workers) -> None:
    topic_id = workers[0].create("orders", PARTITIONS)
    index = workers[1].topics.catalogue._nodes.worker_of("orders", 0)
    partition = (1 - index) % 3
    response = workers[1].call(0, 13, produce("", batch(b"v"), partition=partition, topic_id=topic_id))
    assert response.responses[0].partition_responses[0].error_code == 0


def test_metadata_of_any_worker_makes_topics(workers: Workers) -> None:
    request = MetadataRequest([MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    first = [world.call(3, 12, request).topics[0] for world in workers.worlds]
    assert {(topic.error_code, topic.topic_id) for topic in first} == {(0, first[0].topic_id)}


def test_one_name_is_given_once(workers: Workers) -> None:
    for world in workers.worlds:
        world.create(f"of-{world.number}")
    response = workers[2].call(19, 7, CreateTopicsRequest([CreatableTopic("of-0", 1, 1)]))
    assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    workers.tell()
    assert [world.names() for world in workers.worlds] == [{"of-0", "of-1", "of-2"}] * 3


def test_growth_and_settings_reach_the_others(workers: Workers) -> None:
    workers[0].create("orders", 2)
    workers.tell()
    response = workers[1].call(37, 3, CreatePartitionsRequest([CreatePartitionsTopic("orders", PARTITIONS, None)]))
    assert response.results[0].error_code == 0
    configs = [AlterableConfig("max.message.bytes", "1000")]
    response = workers[2].call(33, 1, AlterConfigsRequest([AlterConfigsResource(2, "orders", configs)]))
    assert response.responses[0].error_code == 0
    workers.tell()
    for world in workers.worlds:
        topic = world.topics.catalogue.by_name["orders"]
        assert len(topic.partitions) == PARTITIONS
        assert topic.configs.own == {"max.message.bytes": "1000"}
        assert {partition.configs.limits.max_message_bytes for partition in topic.partitions} == {1000}
    write(workers, "orders", PARTITIONS)


def test_a_deleted_topic_goes_everywhere(workers: Workers) -> None:
    topic_id = workers[0].create("orders", PARTITIONS)
    workers.tell()
    write(workers, "orders", PARTITIONS)
    assert len(directories(workers, "orders")) == PARTITIONS
    assert delete(workers[0], "orders") == 0
    assert directories(workers, "orders"), "the others' partitions are for them to remove"
    assert list(read(workers.disk, f"{PATH}/topics.json").deleting) == [topic_id]
    workers.tell()
    assert directories(workers, "orders") == set()
    assert [world.deleted for world in workers.worlds] == [[("orders", topic_id)]] * 3
    workers[1].create("another")
    assert read(workers.disk, f"{PATH}/topics.json").deleting == {}, "everybody has done its part"


def test_its_name_can_be_given_again_before_everybody_has_heard(workers: Workers) -> None:
    old_id = workers[0].create("orders", PARTITIONS)
    workers.tell()
    write(workers, "orders", PARTITIONS)
    assert delete(workers[0], "orders") == 0
    new_id = workers[1].create("orders", PARTITIONS)
    workers.tell()
    write(workers, "orders", PARTITIONS)
    for world in workers.worlds:
        assert world.topics.topic_id("orders") == new_id != old_id
        assert world.deleted == [("orders", old_id)]
        for log in world.data.logs.values():
            if log.topic == "orders":
                assert (log.topic_id, log.end_offset) == (new_id, 1)


def test_a_worker_that_was_dead_does_its_part_later(workers: Workers) -> None:
    topic_id = workers[0].create("orders", PARTITIONS)
    workers.tell()
    write(workers, "orders", PARTITIONS)
    workers.die(2)
    assert delete(workers[0], "orders") == 0
    workers[1].topics.catalogue.refresh()
    workers.settle()
    workers[1].create("meanwhile", PARTITIONS)
    assert list(read(workers.disk, f"{PATH}/topics.json").deleting) == [topic_id]
    workers[2].deleted.clear()
    workers.start_again(2)
    assert directories(workers, "orders") == set()
    assert workers[2].names() == {"meanwhile"}
    workers[0].create("after")
    assert read(workers.disk, f"{PATH}/topics.json").deleting == {}


def test_groups_of_a_worker_that_was_dead_hear_of_it(workers: Workers) -> None:
    topic_id = workers[0].create("orders")
    workers.die(1)
    assert delete(workers[0], "orders") == 0
    world = workers[1]
    world.is_recovered = False
    told: list[tuple[str, bytes]] = []
    super(WorkerWorld, world).open()
    world.topics.on_deleted(lambda name, id_: told.append((name, id_)))
    world.topics.follow_deletions()
    assert told == [("orders", topic_id)]


def test_a_directory_that_the_catalogue_does_not_know_is_set_aside_by_its_worker(workers: Workers) -> None:
    logs = workers[0].data.create("strange", [0, 1, 2], b"s" * 16, LogConfig())
    own = {log.name for log in logs if workers[0].nodes().owns(log.topic, log.partition)}
    workers.start_again(0)
    names = workers.disk.listdir(PATH)
    assert {name for name in names if name.startswith("strange") and not name.endswith("-stray")} == {
        log.name for log in logs if log.name not in own
    }
    assert {name.partition(".")[0] for name in names if name.endswith("-stray")} == own
    assert own


def test_a_partition_without_an_id_is_its_topics(tmp_path: Path) -> None:
    """One that a Kafka broker before 2.8 has made: in its directory there is no partition.metadata."""
    disk = SimulatedDisk()
    DataDirectory.open(PATH, disk=disk).close()
    disk.makedirs(f"{PATH}/old-1")
    disk.open(f"{PATH}/old-1/{0:020d}.log", create=True)
    disk.content(f"{PATH}/old-1/{0:020d}.log")[:] = build_batch([(b"a", b"1")], 1)
    workers = Workers(2, tmp_path, disk)
    [log] = [world.data.get("old", 1) for world in workers.worlds if world.nodes().owns("old", 1)]
    assert log is not None
    assert log.end_offset == 1
    assert [len(world.topics.catalogue.by_name["old"].partitions) for world in workers.worlds] == [2, 2]


def test_partitions_cannot_be_placed(workers: Workers) -> None:
    """Their place follows from their number; to take another assignment would be a lie."""
    nodes = workers[0].topics.administration.nodes
    right = [CreatableReplicaAssignment(index, [nodes.leader_of("orders", index)]) for index in range(3)]
    wrong = [CreatableReplicaAssignment(index, [nodes.leader_of("other", index + 1)]) for index in range(3)]
    strange = [CreatableReplicaAssignment(0, [FIRST_ID + 3])]
    wanted = {"orders": right, "other": wrong, "x": strange}
    topics = [CreatableTopic(name, -1, -1, assignments) for name, assignments in wanted.items()]
    answered = {each.name: each for each in workers[0].call(19, 7, CreateTopicsRequest(topics)).topics}
    assert answered["orders"].error_code == 0
    assert answered["other"].error_code == answered["x"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "can be on broker" in (answered["other"].error_message or "")
    assert "no such broker" in (answered["x"].error_message or "")
    more = [CreatePartitionsAssignment([nodes.leader_of("orders", index)]) for index in (3, 4)]
    response = workers[0].call(37, 3, CreatePartitionsRequest([CreatePartitionsTopic("orders", 5, more)]))
    assert response.results[0].error_code == 0


def test_producer_ids_are_unique_over_workers_and_restarts(workers: Workers) -> None:
    given = [world.topics.producer_ids.next() for _ in range(1_500) for world in workers.worlds]
    workers.start_again(1)
    given += [workers[1].topics.producer_ids.next() for _ in range(1_500)]
    given += [workers[0].topics.producer_ids.next() for _ in range(1_500)]
    assert len(set(given)) == len(given)


def test_steps_look_again_while_another_process_has_the_lock(workers: Workers) -> None:
    catalogue = workers[0].topics.catalogue
    holder = Shared(1, workers.lock_path)
    steps = catalogue.changing_in_steps()
    with holder.lock():
        for _ in range(3):
            waits = next(steps)
            assert isinstance(waits, Wait)
            went_on: list[bool] = []
            waits.begin(partial(went_on.append, True))
            workers[0].pass_time(LOOK_MS)
            assert went_on == [True]
        assert not workers.shared.take()
    with pytest.raises(StopIteration) as end:
        next(steps)
    with end.value.value:
        assert not holder.take()
    assert holder.take()


def test_steps_do_not_wait_for_ever(workers: Workers) -> None:
    holder = Shared(1, workers.lock_path)
    with holder.lock(), pytest.raises(OSError, match=f"has been changing topics or settings for {LOOKS * LOOK_MS} ms"):
        list(workers[0].topics.catalogue.changing_in_steps())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["create", "delete", "grow", "configure"])
def test_a_request_waits_for_the_lock_without_the_loop(kind: str, workers: Workers) -> None:
    workers[0].create("orders", 2)
    change = [AlterConfigsResource(2, "orders", [AlterableConfig("retention.ms", "1")])]
    requests: dict[str, tuple[int, Any]] = {
        "create": (19, CreateTopicsRequest([CreatableTopic("new", 1, 1)])),
        "delete": (20, DeleteTopicsRequest(topic_names=["orders"])),
        "grow": (37, CreatePartitionsRequest([CreatePartitionsTopic("orders", 3, None)])),
        "configure": (33, AlterConfigsRequest(change, False)),
    }
    api_key, request = requests[kind]
    answer = workers[0].handlers[api_key](Context(workers[0], api_key, 2), request)
    assert isinstance(answer, CooperativeTask)
    holder = Shared(1, workers.lock_path)
    with holder.lock():
        waits = next(each for each in answer.steps if each is not None)
    assert isinstance(waits, Wait)
    assert run_through(answer.steps) is not None


def test_a_started_worker_publishes_what_it_has_read(workers: Workers) -> None:
    shared = workers.shared
    before, groups = shared.change, shared.groups_change
    assert shared.worker_started(before + 1)
    assert (shared.change, shared.groups_change) == (before + 1, groups + 1)
    assert shared.worker_started(before)
    assert (shared.change, shared.groups_change) == (before + 1, groups + 2)
