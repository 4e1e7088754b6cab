"""Topics by chance, for the hash of a group's topics."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from coordinatord.coordination.group.consumer.metadata_hash import group_hash, topic_hash

RECORDED = Path(__file__).parent / "kafka_hashes.jsonl"
"""Topics with Kafka's hashes: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(60)
RACKS = ["a", "b", "rack-1", "eu-central-1a", "", "ü", "\uff5e", "😀"]


def question(seed: int) -> list[Any]:
    """Topics of a group: their ids, names, and the racks of their partitions' replicas."""
    chance = random.Random(seed)
    racks = RACKS[: chance.choice([0, 1, 3, 8])]
    replicas = chance.randint(1, 3)
    topics: dict[str, list[Any]] = {}
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        name = "".join(chance.choice("abzAZ019._-") for _ in range(chance.choice([1, 8, 40])))
        partitions = [
            chance.choices(racks, k=replicas) if racks else [] for _ in range(chance.choice([0, 1, 2, 3, 12, 70]))
        ]
        topics[name] = [f"{chance.getrandbits(128):032x}", name, partitions]
    return list(topics.values())


def ours(asked: list[Any]) -> list[str]:
    """Our hashes: the group's, then those of its topics."""
    hashes = {name: topic_hash(bytes.fromhex(topic_id), name, racks) for topic_id, name, racks in asked}
    return [str(group_hash(hashes)), *map(str, hashes.values())]


def recorded() -> list[tuple[list[Any], list[str]]]:
    """Topics with Kafka's hashes."""
    return [(asked, answered) for asked, answered in map(json.loads, RECORDED.read_text().splitlines())]
