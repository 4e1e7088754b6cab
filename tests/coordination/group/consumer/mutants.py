"""Modules of the consumer protocol with one mistake each. Kafka's recorded answers have to show each mistake."""

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

import coordinatord.coordination.group.consumer as package

SOURCES = Path(package.__file__).parent
CASES = {
    "assignors": "tests.coordination.group.consumer.assignor_cases",
    "java_collections": "tests.coordination.group.consumer.assignor_cases",
    "expressions": "tests.coordination.group.consumer.expression_cases",
    "metadata_hash": "tests.coordination.group.consumer.hash_cases",
}
HASH_MAP, TREE_BIN = "java_collections.hash_map", "java_collections.tree_bin"
BUILDER = "assignors.assignment_builder"
RELOADED = (*(f"{package.__name__}.{each}" for each in CASES), *CASES.values())


class Mutant(NamedTuple):
    """`module` of coordinatord.coordination.group.consumer; `source` is there once."""

    module: str
    source: str
    instead: str


MUTANTS: dict[str, Mutant] = {
    "static members come last": Mutant(
        "assignors.range", "return instance_id is None,", "return instance_id is not None,"
    ),
    "instance ids do not count": Mutant(
        "assignors.range", "instance_id = spec.members[member_id].instance_id", "instance_id = None"
    ),
    "the last members get the long runs": Mutant(
        "assignors.range", "self.dealt < more", "self.readers - self.dealt <= more"
    ),
    "all names count in a homogeneous group": Mutant(
        "assignors.range", "names = 0 if spec.homogeneous else", "names ="
    ),
    "topics that do not exist do not count": Mutant(
        "assignors.range", "max(len(read[member_id]), names)", "len(read[member_id])"
    ),
    "members are not in the order of a table": Mutant(
        "assignors.slices", "return list(table)", "return list(spec.members)"
    ),
    "topics are not in the order of a table": Mutant(
        "assignors.uniform", "copied(UUIDS, first.topic_ids, first.names)", "first.topic_ids"
    ),
    "names that do not exist do not enlarge the table": Mutant(
        "assignors.uniform", "copied(UUIDS, first.topic_ids, first.names)", "copied(UUIDS, first.topic_ids)"
    ),
    "free partitions are dealt from behind": Mutant(
        "assignors.uniform", "for partition in range(count) if", "for partition in reversed(range(count)) if"
    ),
    "nobody has one more": Mutant("assignors.uniform", "quota = plan.quota + extra", "quota = plan.quota"),
    "who lacks partitions keeps the claim to one more": Mutant(
        "assignors.uniform", "members_left > plan.more", "False"
    ),
    "who lacks partitions never keeps the claim to one more": Mutant(
        "assignors.uniform", "members_left > plan.more", "True"
    ),
    "one too many leave the claim": Mutant(
        "assignors.uniform", "members_left > plan.more", "members_left >= plan.more"
    ),
    "the first partitions are given up": Mutant(
        "assignors.uniform", "list(held(partitions))[quota:]", "list(held(partitions))[: len(partitions) - quota]"
    ),
    "the highest partitions are given up": Mutant(
        "assignors.uniform", "list(held(partitions))[quota:]", "sorted(partitions)[quota:]"
    ),
    "what is given up is dealt first": Mutant(
        "assignors.uniform",
        "plan.free += [(topic, partition) for partition in given]",
        "plan.free = [(topic, partition) for partition in given] + plan.free",
    ),
    "a topic that is read no more is kept": Mutant(
        "assignors.uniform", "if topic not in plan.partitions:", "if False:"
    ),
    "topics of a member are in the order of the record": Mutant(
        BUILDER, "for topic in placed(UUIDS, assigned)", "for topic in assigned"
    ),
    "a copy of topics is as large as any table": Mutant(
        BUILDER, "collected(UUIDS, before, len(before))", "collected(UUIDS, before)"
    ),
    "a new topic is added at the end": Mutant(
        BUILDER, "self._topics.compute_if_absent(topic)", "self._topics.put(topic)"
    ),
    "a set is copied once only": Mutant(BUILDER, "_MAY_BE_A_TREE = 9", "_MAY_BE_A_TREE = 10**9"),
    "an empty topic stays": Mutant(BUILDER, "        if not held:\n            self.remove_topic(topic)\n", ""),
    "a set is as large as any table": Mutant("assignors.mixed", "roomy(for_each)", "16"),
    "readers for each partition are rounded down": Mutant(
        "assignors.mixed",
        "-(-len(self.owners[topic]) // len(self.readers[topic]))",
        "len(self.owners[topic]) // len(self.readers[topic])",
    ),
    "topics are not in order of need": Mutant(
        "assignors.mixed", "-(len(self.owners[topic]) / readers), readers,", "0.0, readers,"
    ),
    "topics with many readers come first": Mutant(
        "assignors.mixed", "/ readers), readers, uuid_order", "/ readers), -readers, uuid_order"
    ),
    "topics are in order of unsigned ids": Mutant(HASH_MAP, 'struct.Struct(">qq")', 'struct.Struct(">QQ")'),
    "one round is enough": Mutant("assignors.mixed", "_ROUNDS = 16", "_ROUNDS = 1"),
    "the first partition is moved": Mutant("assignors.mixed", "has[giver].pop()", "has[giver].pop(0)"),
    "nobody balances": Mutant("assignors.mixed", "    yield from builder.balance()\n", ""),
    "a difference of two is balanced": Mutant(
        "assignors.balancer", "return self.high - self.low <= 1", "return self.high - self.low <= 2"
    ),
    "the last of the least loaded takes first": Mutant(
        "assignors.balancer", "(loads[member], member)", "(loads[member], -member)"
    ),
    "takers are never joined": Mutant(
        "assignors.balancer",
        "                self._taking_end += 1\n",
        "                self._taking_end = self._taking_end or 1\n                break\n",
    ),
    "givers take no turns": Mutant(
        "assignors.balancer", "self._next_giver = self._giving_end - 1", "self._next_giver = self._giving_start"
    ),
    "who has nothing to give is swapped with the first": Mutant(
        "assignors.balancer", "self._giving_end - 1\n        at", "self._giving_start\n        at"
    ),
    "the range of givers is not found again": Mutant(
        "assignors.balancer", "self.high = loads[members[self._giving_start - 1]]", "self.high -= 1"
    ),
    "hashes are not spread": Mutant(HASH_MAP, "(value ^ value >> 16)", "value"),
    "tables grow late": Mutant(HASH_MAP, "self._full = size * 2 * 3 // 4", "self._full = size * 2"),
    "computeIfAbsent grows as put does": Mutant(
        HASH_MAP,
        "        self._count += 1\n\n    def remove",
        "        self._count += 1\n        if self._count > self._full:\n            self._grow()\n\n    def remove",
    ),
    "computeIfAbsent adds at the end": Mutant(HASH_MAP, "bucket.insert(0, key)", "bucket.append(key)"),
    "computeIfAbsent tolerates one more": Mutant(
        HASH_MAP, "if len(bucket) >= _LONGEST_CHAIN:", "if len(bucket) > _LONGEST_CHAIN:"
    ),
    "put tolerates one less": Mutant(HASH_MAP, "if len(bucket) > _LONGEST_CHAIN:", "if len(bucket) >= _LONGEST_CHAIN:"),
    "small tables have trees, too": Mutant(
        HASH_MAP, "_SMALLEST_TABLE_WITH_TREES = 64", "_SMALLEST_TABLE_WITH_TREES = 16"
    ),
    "trees stay trees when they are split": Mutant(HASH_MAP, "_SHORTEST_TREE = 7", "_SHORTEST_TREE = 2"),
    "few keys are in no trees": Mutant(
        HASH_MAP, "        if any(map(eq, buckets, buckets[_LONGEST_CHAIN:])):\n", "        if False:\n"
    ),
    "few keys do not let a table grow": Mutant(HASH_MAP, "before, size = size, grown(size, number)", "before = size"),
    "a root stays where it is": Mutant(TREE_BIN, "if root is not None and root is not self._first:", "if False:"),
    "a new key comes last": Mutant(
        TREE_BIN,
        "self._link(node, self._attach(node))",
        "self._attach(node)\n        self._link(node, self._nodes[[*self][-1]])",
    ),
    "trees are never too small": Mutant(
        TREE_BIN, "small = left is None or right is None or left.children[LEFT] is None", "small = False"
    ),
    "red siblings do not matter": Mutant(TREE_BIN, "if sibling.red:", "if False:"),
    "hashes are compared without their sign": Mutant(TREE_BIN, " ^ 0x80000000", ""),
    "keys of one hash have no order": Mutant(TREE_BIN, "(signed, self._order(key))", "(signed, len(self._nodes))"),
    "a slot begins with its first key": Mutant(HASH_MAP, "list(keys)[::-1]", "list(keys)"),
    "timeline tables grow late": Mutant(HASH_MAP, "if (keys + 1) * 0.75 > table", "if keys * 0.75 > table"),
    "names are a table of the usual size": Mutant(
        HASH_MAP,
        "collected(STRINGS, names, max(roomy(len(names)), SMALLEST_TABLE))",
        "collected(STRINGS, names)",
    ),
    "of two sets as large the first comes first": Mutant(
        HASH_MAP, "if len(names) > len(matched)", "if len(names) >= len(matched)"
    ),
    # Expressions
    "errors are described as by RE2": Mutant(
        "expressions", "RE2J_DESCRIPTIONS.get(description, description)", "description"
    ),
    "part of a name is enough": Mutant("expressions", "compiled.fullmatch", "compiled.search"),
    # The hash of topics
    "an id is read from behind": Mutant("metadata_hash", "topic_id[7::-1]", "topic_id[:8]"),
    "the halves of an id change places": Mutant("metadata_hash", "topic_id[:7:-1]", "topic_id[8:]"),
    "no magic byte": Mutant("metadata_hash", "bytearray(_MAGIC)", "bytearray()"),
    "strings have no length": Mutant("metadata_hash", "    data += _INT.pack(len(units) // 2)\n", ""),
    "strings are as long as their bytes": Mutant("metadata_hash", "len(units) // 2", "len(units)"),
    "racks have no length": Mutant(
        "metadata_hash", "            data += _INT.pack(len(string_order(rack)) // 2)\n", ""
    ),
    "racks are as long as their characters": Mutant("metadata_hash", "len(string_order(rack)) // 2", "len(rack)"),
    "racks have no order": Mutant("metadata_hash", "sorted(each, key=string_order)", "each"),
    "racks are in order of code points": Mutant("metadata_hash", "sorted(each, key=string_order)", "sorted(each)"),
    "racks are a set": Mutant("metadata_hash", "sorted(each, key=string_order)", "sorted(set(each), key=string_order)"),
    "partitions have no number": Mutant("metadata_hash", "        data += _INT.pack(partition)\n", ""),
    "topics have no order": Mutant("metadata_hash", "sorted(topic_hashes, key=string_order)", "topic_hashes"),
    "a hash is not signed": Mutant("metadata_hash", "if value >> 63", "if False"),
}


def mutated(mutant: Mutant) -> str:
    """A module's source with the mistake."""
    source = (SOURCES / f"{mutant.module.replace('.', '/')}.py").read_text()
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
def reloaded(mutant: Mutant | None, cases: str) -> Iterator[ModuleType]:
    """A module of cases over modules with the mistake; everybody else keeps those without it."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(RELOADED)}
    finders = [] if mutant is None else [_Finder(mutant)]
    sys.meta_path[:0] = finders
    try:
        yield importlib.import_module(cases)
    finally:
        del sys.meta_path[: len(finders)]
        for name in [name for name in sys.modules if name.startswith(RELOADED)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


def noticed(mutant: Mutant | None, kind: str = "") -> bool:
    """Do Kafka's recorded answers tell it from the modules as they are? One that fails is noticed."""
    with reloaded(mutant, CASES[kind or (mutant.module.partition(".")[0] if mutant else "")]) as cases:
        try:
            return any(cases.ours(asked) != answered for asked, answered in cases.recorded())
        except Exception:
            return True
