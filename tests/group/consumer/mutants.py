"""Assignors with one mistake each. Kafka's recorded answers have to show each mistake."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import coordinatord.group.consumer.assignors as package

SOURCES = Path(package.__file__).parent
RELOADED = (package.__name__, "tests.group.consumer.assignor_cases", "tests.group.consumer.groups")


class Mutant(NamedTuple):
    """`module` of the assignors; `source` is there once."""

    module: str
    source: str
    instead: str


MUTANTS: dict[str, Mutant] = {
    "static members come last": Mutant("range", "return instance_id is None,", "return instance_id is not None,"),
    "instance ids do not count": Mutant(
        "range", "instance_id = spec.members[member_id].instance_id", "instance_id = None"
    ),
    "the last members get the long runs": Mutant("range", "self.dealt < more", "self.readers - self.dealt <= more"),
    "all names count in a homogeneous group": Mutant("range", "names = 0 if spec.homogeneous else", "names ="),
    "topics that do not exist do not count": Mutant(
        "range", "max(len(read[member_id]), names)", "len(read[member_id])"
    ),
    "members are not in the order of a table": Mutant("slices", "return list(table)", "return list(spec.members)"),
    "topics are not in the order of a table": Mutant(
        "uniform", "copied(UUIDS, first.topic_ids, first.names)", "first.topic_ids"
    ),
    "names that do not exist do not enlarge the table": Mutant(
        "uniform", "copied(UUIDS, first.topic_ids, first.names)", "copied(UUIDS, first.topic_ids)"
    ),
    "free partitions are dealt from behind": Mutant(
        "uniform", "for partition in range(count) if", "for partition in reversed(range(count)) if"
    ),
    "nobody has one more": Mutant("uniform", "quota = plan.quota + extra", "quota = plan.quota"),
    "who lacks partitions keeps the claim to one more": Mutant("uniform", "members_left > plan.more", "False"),
    "who lacks partitions never keeps the claim to one more": Mutant("uniform", "members_left > plan.more", "True"),
    "one too many leave the claim": Mutant("uniform", "members_left > plan.more", "members_left >= plan.more"),
    "the first partitions are given up": Mutant(
        "uniform", "list(held(partitions))[quota:]", "list(held(partitions))[: len(partitions) - quota]"
    ),
    "the highest partitions are given up": Mutant(
        "uniform", "list(held(partitions))[quota:]", "sorted(partitions)[quota:]"
    ),
    "what is given up is dealt first": Mutant(
        "uniform", "plan.free.append((topic, partition))", "plan.free.insert(0, (topic, partition))"
    ),
    "a topic that is read no more is kept": Mutant("uniform", "if topic not in plan.partitions:", "if False:"),
    "topics of a member are in the order of the record": Mutant(
        "draft", "for topic in collected(UUIDS, assigned)", "for topic in assigned"
    ),
    "a copy of topics is as large as any table": Mutant(
        "draft", "collected(UUIDS, before, len(before))", "collected(UUIDS, before)"
    ),
    "a new topic is added at the end": Mutant(
        "draft", "self._topics.compute_if_absent(topic)", "self._topics.put(topic)"
    ),
    "a set is copied once only": Mutant("draft", "_MAY_BE_A_TREE = 9", "_MAY_BE_A_TREE = 10**9"),
    "an empty topic stays": Mutant("draft", "        if not partitions:\n            self.remove_topic(topic)\n", ""),
    "a set is as large as any table": Mutant("mixed", "roomy(for_each)", "16"),
    "readers for each partition are rounded down": Mutant(
        "mixed",
        "-(-len(self.owners[topic]) // len(self.readers[topic]))",
        "len(self.owners[topic]) // len(self.readers[topic])",
    ),
    "topics are not in order of need": Mutant(
        "mixed", "-(len(self.owners[topic]) / readers), readers,", "0.0, readers,"
    ),
    "topics with many readers come first": Mutant(
        "mixed", "/ readers), readers, uuid_order", "/ readers), -readers, uuid_order"
    ),
    "topics are in order of unsigned ids": Mutant("tables", 'struct.Struct(">qq")', 'struct.Struct(">QQ")'),
    "one round is enough": Mutant("mixed", "_ROUNDS = 16", "_ROUNDS = 1"),
    "the first partition is moved": Mutant("mixed", "has[giver].pop()", "has[giver].pop(0)"),
    "nobody balances": Mutant("mixed", "    yield from builder.balance()\n", ""),
    "a difference of two is balanced": Mutant(
        "balancer", "return self.high - self.low <= 1", "return self.high - self.low <= 2"
    ),
    "the last of the least loaded takes first": Mutant(
        "balancer", "(loads[member], member)", "(loads[member], -member)"
    ),
    "takers are never joined": Mutant(
        "balancer",
        "                self._taking_end += 1\n",
        "                self._taking_end = self._taking_end or 1\n                break\n",
    ),
    "givers take no turns": Mutant(
        "balancer", "self._next_giver = self._giving_end - 1", "self._next_giver = self._giving_start"
    ),
    "who has nothing to give is swapped with the first": Mutant(
        "balancer", "self._giving_end - 1\n        at", "self._giving_start\n        at"
    ),
    "the range of givers is not found again": Mutant(
        "balancer", "self.high = loads[members[self._giving_start - 1]]", "self.high -= 1"
    ),
    "hashes are not spread": Mutant("tables", "(value ^ value >> 16)", "value"),
    "tables grow late": Mutant("tables", "self._full = size * 2 * 3 // 4", "self._full = size * 2"),
    "computeIfAbsent grows as put does": Mutant(
        "tables",
        "        self._count += 1\n\n    def remove",
        "        self._count += 1\n        if self._count > self._full:\n            self._grow()\n\n    def remove",
    ),
    "computeIfAbsent adds at the end": Mutant("tables", "bucket.insert(0, key)", "bucket.append(key)"),
    "computeIfAbsent tolerates one more": Mutant(
        "tables", "if len(bucket) >= _LONGEST_CHAIN:", "if len(bucket) > _LONGEST_CHAIN:"
    ),
    "put tolerates one less": Mutant("tables", "if len(bucket) > _LONGEST_CHAIN:", "if len(bucket) >= _LONGEST_CHAIN:"),
    "small tables have trees, too": Mutant(
        "tables", "_SMALLEST_TABLE_WITH_TREES = 64", "_SMALLEST_TABLE_WITH_TREES = 16"
    ),
    "trees stay trees when they are split": Mutant("tables", "_SHORTEST_TREE = 7", "_SHORTEST_TREE = 2"),
    "a root stays where it is": Mutant("trees", "if root is not None and root is not self._first:", "if False:"),
    "a new key comes last": Mutant(
        "trees",
        "self._link(node, self._attach(node))",
        "self._attach(node)\n        self._link(node, self._nodes[[*self][-1]])",
    ),
    "trees are never too small": Mutant(
        "trees", "small = left is None or right is None or left.children[LEFT] is None", "small = False"
    ),
    "red siblings do not matter": Mutant("trees", "if sibling.red:", "if False:"),
    "hashes are compared without their sign": Mutant("trees", " ^ 0x80000000", ""),
    "keys of one hash have no order": Mutant("trees", "(signed, self._order(key))", "(signed, len(self._nodes))"),
    "a slot begins with its first key": Mutant("tables", "list(keys)[::-1]", "list(keys)"),
    "timeline tables grow late": Mutant("tables", "if (count + 1) * 0.75 > table", "if count * 0.75 > table"),
}


def mutated(mutant: Mutant) -> str:
    """A module's source with the mistake."""
    source = (SOURCES / f"{mutant.module}.py").read_text()
    assert source.count(mutant.source) == 1, mutant
    return source.replace(mutant.source, mutant.instead)


class _Finder(MetaPathFinder, Loader):
    """Finds one module with its mistake."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = f"{package.__name__}.{mutant.module}"
        self.source = mutated(mutant)

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, self.name, "exec"), module.__dict__)


@contextmanager
def reloaded(mutant: Mutant | None) -> Iterator[ModuleType]:
    """`assignor_cases` over assignors with the mistake; everybody else keeps those without it."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(RELOADED)}
    finders = [] if mutant is None else [_Finder(mutant)]
    sys.meta_path[:0] = finders
    try:
        yield importlib.import_module("tests.group.consumer.assignor_cases")
    finally:
        del sys.meta_path[: len(finders)]
        for name in [name for name in sys.modules if name.startswith(RELOADED)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


def noticed(mutant: Mutant | None) -> bool:
    """Do Kafka's recorded answers tell it from the assignors as they are? One that fails is noticed."""
    with reloaded(mutant) as cases:
        try:
            return any(cases.ours(asked) != answered for asked, answered in cases.recorded())
        except Exception:
            return True
