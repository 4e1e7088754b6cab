"""Groups by chance, for the server-side assignors: histories of several epochs, as JSON and as we answer them.

Each history is a question for the Java program tests/reference/java/ServerAssignorCheck.java, which defines its form.
"""

from __future__ import annotations

import itertools
import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinatord.coordination.group.consumer.assignors import assign
from coordinatord.coordination.group.consumer.assignors.spec import (
    UUID,
    Assignment,
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
)
from coordinatord.coordination.group.consumer.java_collections.hash_map import (
    INTEGERS,
    STRINGS,
    UUIDS,
    HashTable,
    Kind,
    name_set,
    timeline_order,
    timeline_table,
    union,
)
from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet
from tests.coordination.group.consumer.groups import Topics

RECORDED = Path(__file__).parent / "kafka_assignments.json.xz"
"""Questions and the answers of Kafka's own classes: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(150)
EPOCHS = 5

Question = dict[str, Any]


class History:
    """A group over several epochs: members come, go and change subscriptions; topics appear, grow and are made anew."""

    def __init__(self, seed: int) -> None:
        chance = self.random = random.Random(seed)
        self.assignor = "range" if seed % 4 == 3 else "uniform"
        self.same_topics = chance.random() < 0.5
        self.static = chance.random() < 0.3
        self.same_hashes = chance.random() < 0.1
        self.large = chance.random() < 0.08
        # As many members as a table has buckets put the partitions of each into one bucket.
        self.size = chance.choice([32, 64]) if self.large else chance.choice([2, 5, 8, 12, 13, 30])
        few = 1 + (self.large and not self.same_topics)
        count = few if self.large else chance.choice([1, 2, 3, 5, 14, 26] if self.size < 20 else [1, 2, 3, 5])
        self.topics: dict[UUID, int] = {self._topic_id(): self._partitions() for _ in range(count)}
        self.all_names = 0
        self.subscription = self._subscription()
        self.members: dict[str, list[Any]] = {}
        self._join(self.size if self.large else chance.randint(1, self.size))

    def _topic_id(self) -> UUID:
        words = [self.random.getrandbits(32) for _ in range(3)]
        fourth = words[0] ^ words[1] ^ words[2] ^ 77 if self.same_hashes else self.random.getrandbits(32)
        return b"".join(word.to_bytes(4, "big") for word in [*words, fourth])

    def _partitions(self) -> int:
        if self.large:
            return self.size * self.random.randint(10, 14)
        return self.random.choice([0, 1, 2, 3, 7, 16, 30, 50] if len(getattr(self, "topics", ())) < 6 else [1, 2, 3, 7])

    def _subscription(self) -> list[UUID]:
        least = len(self.topics) if self.same_topics else 0
        return self.random.sample(list(self.topics), self.random.randint(least, len(self.topics)))

    def _join(self, count: int) -> None:
        chance = self.random
        for _ in range(count):
            if self.same_hashes:
                member_id = "".join(chance.choice(["Aa", "BB"]) for _ in range(7))
            else:
                member_id = f"{chance.choice(['c', 'wörker', 'consumer-g-1', '😀'])}-{chance.getrandbits(64):016x}"
            instance_id = f"i{chance.randint(0, 10**6)}" if self.static and chance.random() < 0.7 else None
            topics = self.subscription if self.same_topics else self._subscription()
            names = len(topics) + chance.choice([0, 0, 0, 1, 4, 12])
            self.members[member_id] = [instance_id, topics, names]

    def epoch(self) -> Question:
        """The group as it is."""
        listed = list(self.members.items())
        self.random.shuffle(listed)
        subscriptions = {frozenset(topics) for _, (_, topics, _) in listed}
        return {
            "topics": {topic.hex(): count for topic, count in self.topics.items()},
            "homogeneous": len(subscriptions) < 2 and self.random.random() < (0.5 if self.large else 0.98),
            "members": [
                [member_id, instance_id, [topic.hex() for topic in topics], names]
                for member_id, (instance_id, topics, names) in listed
            ],
        }

    def change(self) -> None:
        """Let something happen, or several things, or nothing."""
        chance = self.random
        if chance.random() < 0.6:
            for member_id in chance.sample(list(self.members), min(len(self.members), chance.randint(0, 3))):
                del self.members[member_id]
        if chance.random() < 0.7:
            self._join(chance.randint(0, 1 + self.size // 3))
        if chance.random() < 0.25:
            self.topics[self._topic_id()] = self._partitions()
            self._resubscribe()
        if self.topics and chance.random() < 0.25:
            self.topics[chance.choice(list(self.topics))] += chance.choice([1, 2, 17])
        if self.topics and chance.random() < 0.2:
            gone = chance.choice(list(self.topics))
            count, anew = self.topics.pop(gone), self._topic_id()
            if chance.random() < 0.7:
                self.topics[anew] = max(1, count - chance.randint(0, 2))
            if chance.random() < 0.95:  # else members subscribe to what does not exist
                for each in self.members.values():
                    each[1] = [anew if topic == gone else topic for topic in each[1]]
                    each[1] = [topic for topic in each[1] if topic in self.topics]
                self.subscription = [anew if topic == gone else topic for topic in self.subscription]
                self.subscription = [topic for topic in self.subscription if topic in self.topics]
        if chance.random() < 0.3:
            self._resubscribe()

    def _resubscribe(self) -> None:
        chance = self.random
        if chance.random() < 0.25:
            self.same_topics = not self.same_topics
        self.subscription = self._subscription()
        for each in self.members.values():
            if self.same_topics:
                each[1] = self.subscription
            elif chance.random() < 0.3:
                each[1] = self._subscription()

    def question(self) -> Question:
        """The whole history."""
        epochs = [self.epoch()]
        for _ in range(EPOCHS - 1):
            self.change()
            epochs.append(self.epoch())
        return {"do": "assign", "assignor": self.assignor, "epochs": epochs}


def tall_question() -> Question:
    """Each of 32 members gets forty partitions that fall into two buckets. Then others come, and others go."""
    topic = (7).to_bytes(16, "big").hex()
    members = [[f"m{number}", None, [topic], 1] for number in range(40)]
    epochs = [
        {"topics": {topic: 32 * 40}, "homogeneous": homogeneous, "members": members[begin:end]}
        for homogeneous, begin, end in ((False, 0, 32), (True, 0, 40), (True, 4, 38), (False, 0, 36))
    ]
    return {"do": "assign", "assignor": "uniform", "epochs": epochs}


def group_spec(epoch: Question, target: Assignment) -> GroupSpec:
    """A group of a question, whose members have this."""
    return GroupSpec(
        {
            member_id: MemberSpec(
                None, instance_id, JavaSet(map(bytes.fromhex, topics)), target.get(member_id, {}), names
            )
            for member_id, instance_id, topics, names in epoch["members"]
        },
        epoch["homogeneous"],
        assignable={bytes.fromhex(topic): frozenset(each) for topic, each in epoch["assignable"].items()}
        if "assignable" in epoch
        else None,
    )


def topics_of(epoch: Question) -> Topics:
    """The topics of a question."""
    return Topics({bytes.fromhex(topic): count for topic, count in epoch["topics"].items()})


def new_records(target: Assignment, result: Assignment) -> list[Any]:
    """Members whose assignment differs, as the Java program shows them; `target` becomes the result."""
    records = []
    for member_id in list(target):
        if member_id not in result:
            del target[member_id]
    for member_id, assigned in result.items():
        if target.get(member_id) != assigned:
            records.append([member_id, [[topic.hex(), list(each)] for topic, each in assigned.items()]])
            target[member_id] = assigned
    return records


def answer(question: Question, assign: Callable[[str, GroupSpec, Topics], Assignment] = assign) -> list[Any]:
    """Our answer to a history."""
    target: Assignment = {}
    answers: list[Any] = []
    for epoch in question["epochs"]:
        try:
            result = assign(question["assignor"], group_spec(epoch, target), topics_of(epoch))
        except PartitionAssignorError as error:
            listed = {member_id for member_id, *_ in epoch["members"]}
            target = {member_id: each for member_id, each in target.items() if member_id in listed}
            answers.append(f"PartitionAssignorException: {error}")
        else:
            answers.append(new_records(target, result))
    return answers


def _keys(chance: random.Random, kind: str) -> list[Any]:
    """Keys, many of which fall into few buckets."""
    if kind == "integers":
        stride = chance.choice([1, 16, 64, 128, 65_536])
        return [number * stride for number in range(60)] + chance.choice([[], list(range(1, 200))])
    if kind == "strings":
        same = ["".join(each) for each in itertools.product(["Aa", "BB"], repeat=6)]
        return same if chance.random() < 0.5 else [f"{chance.getrandbits(32):08x}é" for _ in range(60)]
    scattered, same_hash, same_bucket = range(3)
    form = chance.choice([scattered, same_hash, same_bucket])
    keys = []
    for _ in range(60):
        words = [chance.getrandbits(32) for _ in range(3)]
        high = chance.getrandbits(16)
        hash_code = [chance.getrandbits(32), 5, high << 16 | high ^ 9][form]
        words.append(words[0] ^ words[1] ^ words[2] ^ hash_code)
        keys.append(b"".join(word.to_bytes(4, "big") for word in words).hex())
    return keys


def tables_question(seed: int) -> Question:
    """Operations on a hash table."""
    chance = random.Random(seed)
    kind = ["integers", "uuids", "strings"][seed % 3]
    keys = _keys(chance, kind)
    steps: list[list[Any]] = []
    there: list[Any] = []
    for _ in range(chance.choice([5, 20, 60, 200])):
        if there and chance.random() < 0.3:
            steps.append(["remove", there.pop(chance.randrange(len(there)))])
            continue
        key = chance.choice(keys)
        steps.append([chance.choice(["put", "compute"]) if chance.random() < 0.3 else "put", key])
        if key not in there:
            there.append(key)
    return {"do": "tables", "keys": kind, "capacity": chance.choice([0, 1, 3, 16, 17, 100]), "steps": steps}


def table_answer(question: Question) -> list[Any]:
    """Our tables' answer."""
    kinds: dict[str, Kind[Any]] = {"integers": INTEGERS, "uuids": UUIDS, "strings": STRINGS}
    uuids = question["keys"] == "uuids"
    table = HashTable(kinds[question["keys"]], question["capacity"])
    for step, key in question["steps"]:
        {"put": table.put, "compute": table.compute_if_absent, "remove": table.remove}[step](
            bytes.fromhex(key) if uuids else key
        )
    return [key.hex() if uuids else key for key in table]


def timeline_question(seed: int) -> Question:
    """Operations on a TimelineHashMap."""
    chance = random.Random(seed)
    there: list[str] = []
    steps = []
    for _ in range(chance.randint(1, 80)):
        if there and chance.random() < 0.3:
            steps.append(["remove", there.pop(chance.randrange(len(there)))])
        elif there and chance.random() < 0.2:
            steps.append(["put", chance.choice(there)])
        else:
            there.append(f"m-{chance.getrandbits(40):x}")
            steps.append(["put", there[-1]])
    return {"do": "timeline", "steps": steps}


def timeline_answer(question: Question) -> list[str]:
    """Our answer."""
    keys: dict[str, None] = {}
    table = 2
    for step, key in question["steps"]:
        if step == "put":
            table = timeline_table(len(keys), table)
            keys[key] = None
        else:
            del keys[key]
    return timeline_order(keys, table)


def names_question(seed: int) -> Question:
    """Names that a member lists, some of them twice, and names that its expression matches."""
    chance = random.Random(seed)
    names = [f"topic-{chance.getrandbits(20):x}" for _ in range(60)]
    return {
        "do": "names",
        "names": chance.choices(names, k=chance.choice([0, 1, 11, 12, 13, 30])),
        "matched": sorted(chance.sample(names, chance.choice([0, 1, 12, 30]))),
    }


def names_answer(question: Question) -> list[str]:
    """Our answer."""
    return list(union(name_set(question["names"]), name_set(question["matched"])))


def ours(question: Question) -> list[Any]:
    """Our answer to any question."""
    answers = {"assign": answer, "tables": table_answer, "timeline": timeline_answer, "names": names_answer}
    return answers[question["do"]](question)


def questions(seeds: range) -> list[Question]:
    """Histories, and with every third of them a question about each kind of table."""
    asked = [tall_question()]
    for seed in seeds:
        asked.append(History(seed).question())
        if seed % 3 == 0:
            asked += [tables_question(seed + each) for each in range(3)]
            asked += [timeline_question(seed), names_question(seed)]
    return asked


def recorded() -> list[tuple[Question, list[Any]]]:
    """Questions with Kafka's answers."""
    return [(asked, answered) for asked, answered in json.loads(lzma.decompress(RECORDED.read_bytes()))]
