"""What groups of the consumer protocol see of the catalogue."""

from __future__ import annotations

from coordinatord.broker.topics.names import LEDGER_TOPIC, OFFSETS_TOPIC
from coordinatord.coordination.service.topics_image import TopicsImage
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import run_through
from tests.broker.topics.world import World


def image(world: World, rack: str | None = None) -> TopicsImage:
    return TopicsImage(world.topics.catalogue, Nodes(0, rack))


def test_each_change_is_seen() -> None:
    world = World()
    topics = image(world)
    versions = [topics.version]
    assert topics.created_version == topics.version, "at first all are new"
    catalogue = world.topics.catalogue
    world.create("orders", 2)
    versions.append(topics.version)
    assert topics.created_version == versions[-1]
    first = topics.find("orders")
    assert first is not None
    assert (first.partitions, topics.num_partitions(first.topic_id)) == (2, 2)
    assert topics.find_id(first.topic_id) == first
    run_through(catalogue.grow([(catalogue.by_name["orders"], 3)]))
    versions.append(topics.version)
    grown = topics.find("orders")
    assert grown is not None
    assert grown.topic_id == first.topic_id
    assert grown.hash != first.hash
    run_through(catalogue.delete([catalogue.by_name["orders"]]))
    versions.append(topics.version)
    assert topics.find("orders") is topics.find_id(first.topic_id) is None
    assert topics.num_partitions(first.topic_id) == -1
    assert topics.created_version == versions[1], "none was created since"
    assert versions == sorted(set(versions))


def test_the_rack_is_in_the_hash() -> None:
    world = World()
    world.create("orders", 2)
    plain, racked = image(world).find("orders"), image(world, "r1").find("orders")
    assert plain is not None
    assert racked is not None
    assert plain.hash != racked.hash
    assert image(world, "r1").racks(racked.topic_id, 0) == {"r1"}


def test_expressions_may_match_internal_topics_but_not_the_ledger() -> None:
    world = World()
    world.topics.create_ledger_topic()
    names = set(image(world).names())
    assert OFFSETS_TOPIC in names
    assert LEDGER_TOPIC not in names


def test_the_ledgers_topic_is_no_new_one() -> None:
    """Kafka has none, and would not resolve expressions again for it."""
    world = World()
    topics = image(world)
    before = topics.created_version
    world.topics.create_ledger_topic()
    assert topics.version > before
    assert topics.created_version == before
    world.create("orders", 2)
    assert topics.created_version == topics.version
