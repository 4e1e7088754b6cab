"""Cases for assignors, by chance and by hand, and what they look like on paper: JSON with the members' own bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinatord.testing.member.assignors import ASSIGNORS
from coordinatord.testing.member.assignors.base import Assignment, AssignmentError, Assignor
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.subscription import (
    decode_assignment,
    decode_subscription,
    encode_assignments,
    encode_subscription,
)

RACKS = ["a", "b", "c"]

RECORDED = Path(__file__).parent / "kafka_assignors.jsonl"
"""Questions with the answers of Kafka's own assignors: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(24)


@dataclass
class Consumer:
    """A member as its leader knows it, with an assignor that remembers."""

    member_id: str
    group_instance_id: str | None
    topics: list[str]
    rack_id: str | None
    assignor: Assignor
    owned: list[TopicPartition]
    generation_id: int = -1

    def metadata(self) -> bytes:
        owned = self.owned if self.assignor.cooperative else []
        user_data = self.assignor.subscription_user_data(())
        return encode_subscription(self.topics, user_data, owned, self.generation_id, self.rack_id)


def question(assignor: str, topics: dict[str, list[list[str]]], members: list[Consumer]) -> dict[str, Any]:
    """What the Java program is asked."""
    return {
        "do": "assign",
        "assignor": assignor,
        "topics": topics,
        "members": [[each.member_id, each.group_instance_id, each.metadata().hex()] for each in members],
    }


def answer(asked: dict[str, Any]) -> dict[str, str]:
    """What our assignor makes of it."""
    topics = {topic: [frozenset(racks) for racks in each] for topic, each in asked["topics"].items()}
    members = {}
    for member_id, instance_id, metadata in asked["members"]:
        members[member_id] = decode_subscription(bytes.fromhex(metadata))
        members[member_id].group_instance_id = instance_id
    try:
        assignment = ASSIGNORS[asked["assignor"]]().assign(topics, members)
    except AssignmentError:
        return {"error": "IllegalStateException"}
    return {member_id: data.hex() for member_id, data in encode_assignments(assignment).items()}


class History:
    """A group of one assignor over several rebalances: members come, go, change their minds, miss one, and lie."""

    def __init__(self, seed: int, assignor: str) -> None:
        self.random = random.Random(seed)
        self.assignor = assignor
        self.same_topics = self.random.random() < 0.6
        self.racks = RACKS[: self.random.choice([0, 0, 0, 1, 2, 3])]
        self.static = self.random.random() < 0.2
        size = self.random.choice([4, 8, 12, 40])
        self.topics = {
            name: self._partitions() for name in ("t", "orders", "a.b", "Zz", "x-1")[: self.random.randint(1, 5)]
        }
        self.generation_id = 0
        self.members = [self._newcomer() for _ in range(self.random.randint(1, size))]

    def _partitions(self) -> list[list[str]]:
        return [
            self.random.sample(self.racks, self.random.randint(0, len(self.racks)))
            for _ in range(self.random.choice([1, 2, 3, 7, 16, 30]))
        ]

    def _subscription(self) -> list[str]:
        names = [*self.topics, "nowhere"] if self.random.random() < 0.1 else list(self.topics)
        return names if self.same_topics else self.random.sample(names, self.random.randint(1, len(names)))

    def _newcomer(self) -> Consumer:
        chance = self.random
        client = chance.choice(["consumer-g-1", "c", "wörker", "ab", "Aa", "BB"])
        member_id = f"{client}-{chance.getrandbits(64):016x}"
        instance_id = f"i{chance.randint(0, 10**6)}" if self.static and chance.random() < 0.7 else None
        rack = chance.choice([*self.racks, None]) if self.racks else None
        return Consumer(member_id, instance_id, self._subscription(), rack, ASSIGNORS[self.assignor](), [])

    def step(self) -> dict[str, Any]:
        """A change, and the question that it puts to the assignor."""
        chance = self.random
        for _ in range(chance.randint(0, 2)):
            if len(self.members) > 1:
                self.members.pop(chance.randrange(len(self.members)))
        self.members += [self._newcomer() for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.2:
            self.topics[f"new{self.generation_id}"] = self._partitions()
        if chance.random() < 0.2:
            grown = chance.choice(list(self.topics))
            self.topics[grown] = self.topics[grown] + self._partitions()
        if chance.random() < 0.3:
            subscribing = self.members if self.same_topics else [chance.choice(self.members)]
            topics = self._subscription()
            for member in subscribing:
                member.topics = topics
        if chance.random() < 0.15:
            # Two that believe that they own the same: one of them slept through a rebalance.
            one, other = chance.choice(self.members), chance.choice(self.members)
            one.owned = sorted({*one.owned, *other.owned[:2]})
            one.assignor.on_assignment(one.owned, one.generation_id)
        chance.shuffle(self.members)
        return question(self.assignor, self.topics, self.members)

    def learn(self, assignment: Assignment) -> None:
        """The members take what they got; now and then one misses it and stays in an older generation."""
        self.generation_id += 1
        for member in self.members:
            if self.random.random() < 0.9:
                member.owned = assignment[member.member_id]
                member.generation_id = self.generation_id
                member.assignor.on_assignment(member.owned, self.generation_id)


def decoded(answered: dict[str, str]) -> Assignment:
    """The partitions in an answer."""
    return {member_id: decode_assignment(bytes.fromhex(data)) for member_id, data in answered.items()}


def random_questions(seeds: range, rounds: int = 4) -> list[dict[str, Any]]:
    """Histories of all assignors in turn; what the assignor under test says decides how they go on."""
    asked: list[dict[str, Any]] = []
    for seed in seeds:
        history = History(seed, list(ASSIGNORS)[seed % len(ASSIGNORS)])
        for _ in range(rounds):
            asked.append(history.step())
            answered = answer(asked[-1])
            if "error" in answered:
                break
            history.learn(decoded(answered))
    return asked


def random_subscriptions(seeds: range) -> list[dict[str, Any]]:
    """Questions for a member's metadata: what it subscribes to, owns, remembers."""
    asked = []
    for seed in seeds:
        chance = random.Random(seed)
        topics = chance.sample(["t", "orders", "a.b", "Zz", "x-1", "Ünï"], chance.randint(0, 4))
        names = ["t", "orders", "a.b", *(f"topic-{number}" for number in range(20))]
        pairs = [[topic, number] for topic in names[: chance.choice([3, 16, 23])] for number in range(5)]
        assigned = chance.sample(pairs, chance.choice([0, 8, 14, 15])) if chance.random() < 0.8 else None
        asked.append(
            {
                "do": "subscribe",
                "assignor": list(ASSIGNORS)[seed % len(ASSIGNORS)],
                "topics": topics,
                "owned": chance.sample(pairs, chance.randint(0, 8)),
                "generation": chance.choice([-1, 0, 7, 2**31 - 1]),
                "rack": chance.choice([None, "", "a", "rack-1"]),
                "assigned": assigned,
            }
        )
    return asked


def subscribed(asked: dict[str, Any]) -> dict[str, str]:
    """What our member would send."""
    assignor = ASSIGNORS[asked["assignor"]]()
    if asked["assigned"] is not None:
        assignor.on_assignment([(topic, number) for topic, number in asked["assigned"]], asked["generation"])
    owned = [(topic, number) for topic, number in asked["owned"]]
    user_data = assignor.subscription_user_data(())
    return {
        "metadata": encode_subscription(asked["topics"], user_data, owned, asked["generation"], asked["rack"]).hex()
    }


def ours(asked: dict[str, Any]) -> dict[str, str]:
    """Our answer to any question."""
    return answer(asked) if asked["do"] == "assign" else subscribed(asked)


def shrunk_topic() -> dict[str, Any]:
    """A member owns what does not exist any more, since the topic was made anew with fewer partitions."""
    owner = Consumer("m", None, ["p"], None, ASSIGNORS["cooperative-sticky"](), [("p", 5)], 1)
    other = Consumer("n", None, ["p"], None, ASSIGNORS["cooperative-sticky"](), [], 1)
    return question("cooperative-sticky", {"p": [[]]}, [owner, other])


def questions(seeds: range) -> list[dict[str, Any]]:
    """All kinds of them."""
    return [*random_questions(seeds), *random_subscriptions(seeds), shrunk_topic()]
