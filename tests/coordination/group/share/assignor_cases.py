"""Share groups by chance, for Kafka's SimpleAssignor: histories as those of consumer groups, whose topics' partitions
are initialised some at a time.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from coordinatord.coordination.group.consumer.assignors.spec import Assignment, GroupSpec
from coordinatord.coordination.group.share import simple
from tests.coordination.group.consumer import assignor_cases
from tests.coordination.group.consumer.assignor_cases import EPOCHS, Question
from tests.coordination.group.consumer.groups import Topics

RECORDED = Path(__file__).parent / "kafka_assignments.json.xz"
"""Questions and the answers of Kafka's own class: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(150)


class History(assignor_cases.History):
    """A share group over several epochs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.assignor = "simple"
        self.initialised = self.random.choice([1.0, 1.0, 0.5])
        self.assignable: dict[bytes, set[int]] = {}

    def _topic_id(self) -> bytes:
        """An id whose hash no other id has: in a tree, Kafka's order of partitions with equal hashes is that of the
        addresses of objects.
        """
        return self.random.randbytes(16)

    def epoch(self) -> Question:
        """The group as it is; a partition is initialised for good, if its topic stays."""
        made = super().epoch()
        found = {}
        for topic, count in self.topics.items():
            before = self.assignable.get(topic, set())
            new = [each for each in range(count) if self.random.random() < self.initialised]
            if before or new:
                found[topic] = before.union(new)
        self.assignable = found
        return {**made, "assignable": {topic.hex(): sorted(each) for topic, each in found.items()}}


def run(name: str, spec: GroupSpec, topics: Topics) -> Assignment:
    """Compute an assignment without interruption."""
    assert name == simple.NAME
    slices = simple.assign(spec, topics)
    while True:
        try:
            next(slices)
        except StopIteration as finished:
            result: Assignment = finished.value
            return result


def ours(question: Question) -> list[Any]:
    """Our answer to a history."""
    return assignor_cases.answer(question, run)


def crowd_question() -> Question:
    """Two partitions for as many members as a share group may have, then for a few."""
    topic = (7).to_bytes(16, "big").hex()
    members = [[f"m{number}", None, [topic], 1] for number in range(200)]
    epochs = [
        {"topics": {topic: 2}, "homogeneous": True, "members": part, "assignable": {topic: [0, 1]}}
        for part in (members[:1], members, members[3:150], members[60:])
    ]
    return {"do": "assign", "assignor": simple.NAME, "epochs": epochs}


def questions(seeds: range) -> list[Question]:
    """Histories of EPOCHS epochs each, after that of a crowd."""
    return [crowd_question(), *(History(seed).question() for seed in seeds)]


def recorded() -> list[tuple[Question, list[Any]]]:
    """Questions with Kafka's answers."""
    return [(asked, answered) for asked, answered in json.loads(lzma.decompress(RECORDED.read_bytes()))]


__all__ = ["EPOCHS", "RECORDED", "RECORDED_SEEDS", "History", "Question", "ours", "questions", "recorded"]
