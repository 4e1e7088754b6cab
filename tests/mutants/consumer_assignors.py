"""Mistakes in assignors, Java's collections, expressions and hashes: Kafka's recorded answers show each."""

from __future__ import annotations

from tests.mutants.tool import Mutant

HASH_MAP, TREE_BIN = "java_collections.hash_map", "java_collections.tree_bin"
BUILDER = "assignors.assignment_builder"


def _recorded(module: str, old: str, new: str, tests: str = "assignors") -> Mutant:
    command = f"pytest tests/coordination/group/consumer/test_{tests}.py"
    return Mutant(f"coordinatord.coordination.group.consumer.{module}", old, new, command)


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "static members come last": _recorded(
        "assignors.range", "return instance_id is None,", "return instance_id is not None,"),
    "instance ids do not count": _recorded(
        "assignors.range", "instance_id = spec.members[member_id].instance_id", "instance_id = None"),
    "the last members get the long runs": _recorded(
        "assignors.range", "self.dealt < more", "self.readers - self.dealt <= more"),
    "all names count in a homogeneous group": _recorded(
        "assignors.range", "names = 0 if spec.homogeneous else", "names ="),
    "topics that do not exist do not count": _recorded(
        "assignors.range", "max(len(read[member_id]), names)", "len(read[member_id])"),
    "members are not in the order of a table": _recorded(
        "assignors.slices", "return list(table)", "return list(spec.members)"),
    "topics are not in the order of a table": _recorded(
        "assignors.uniform", "copied(UUIDS, first.topic_ids, first.names)", "first.topic_ids"),
    "names that do not exist do not enlarge the table": _recorded(
        "assignors.uniform", "copied(UUIDS, first.topic_ids, first.names)", "copied(UUIDS, first.topic_ids)"),
    "free partitions are dealt from behind": _recorded(
        "assignors.uniform", "for partition in range(count) if", "for partition in reversed(range(count)) if"),
    "nobody has one more": _recorded("assignors.uniform", "quota = plan.quota + extra", "quota = plan.quota"),
    "who lacks partitions keeps the claim to one more": _recorded(
        "assignors.uniform", "members_left > plan.more", "False"),
    "who lacks partitions never keeps the claim to one more": _recorded(
        "assignors.uniform", "members_left > plan.more", "True"),
    "one too many leave the claim": _recorded(
        "assignors.uniform", "members_left > plan.more", "members_left >= plan.more"),
    "the first partitions are given up": _recorded(
        "assignors.uniform", "list(held(partitions))[quota:]", "list(held(partitions))[: len(partitions) - quota]"),
    "the highest partitions are given up": _recorded(
        "assignors.uniform", "list(held(partitions))[quota:]", "sorted(partitions)[quota:]"),
    "what is given up is dealt first": _recorded(
        "assignors.uniform", "plan.free += [(topic, partition) for partition in given]",
        "plan.free = [(topic, partition) for partition in given] + plan.free"),
    "a topic that is read no more is kept": _recorded(
        "assignors.uniform", "if topic not in plan.partitions:", "if False:"),
    "topics of a member are in the order of the record": _recorded(
        BUILDER, "for topic in placed(UUIDS, assigned)", "for topic in assigned"),
    "a copy of topics is as large as any table": _recorded(
        BUILDER, "collected(UUIDS, before, len(before))", "collected(UUIDS, before)"),
    "a new topic is added at the end": _recorded(
        BUILDER, "self._topics.compute_if_absent(topic)", "self._topics.put(topic)"),
    "a set is copied once only": _recorded(BUILDER, "_MAY_BE_A_TREE = 9", "_MAY_BE_A_TREE = 10**9"),
    "an empty topic stays": _recorded(BUILDER, "        if not held:\n            self.remove_topic(topic)\n", ""),
    "a set is as large as any table": _recorded("assignors.mixed", "roomy(for_each)", "16"),
    "readers for each partition are rounded down": _recorded(
        "assignors.mixed", "-(-len(self.owners[topic]) // len(self.readers[topic]))",
        "len(self.owners[topic]) // len(self.readers[topic])"),
    "topics are not in order of need": _recorded(
        "assignors.mixed", "-(len(self.owners[topic]) / readers), readers,", "0.0, readers,"),
    "topics with many readers come first": _recorded(
        "assignors.mixed", "/ readers), readers, uuid_order", "/ readers), -readers, uuid_order"),
    "topics are in order of unsigned ids": _recorded(HASH_MAP, 'struct.Struct(">qq")', 'struct.Struct(">QQ")'),
    "one round is enough": _recorded("assignors.mixed", "_ROUNDS = 16", "_ROUNDS = 1"),
    "the first partition is moved": _recorded("assignors.mixed", "has[giver].pop()", "has[giver].pop(0)"),
    "nobody balances": _recorded("assignors.mixed", "    yield from builder.balance()\n", ""),
    "a difference of two is balanced": _recorded(
        "assignors.balancer", "return self.high - self.low <= 1", "return self.high - self.low <= 2"),
    "the last of the least loaded takes first": _recorded(
        "assignors.balancer", "(loads[member], member)", "(loads[member], -member)"),
    "takers are never joined": _recorded(
        "assignors.balancer", "                self._taking_end += 1\n",
        "                self._taking_end = self._taking_end or 1\n                break\n"),
    "givers take no turns": _recorded(
        "assignors.balancer", "self._next_giver = self._giving_end - 1", "self._next_giver = self._giving_start"),
    "who has nothing to give is swapped with the first": _recorded(
        "assignors.balancer", "self._giving_end - 1\n        at", "self._giving_start\n        at"),
    "the range of givers is not found again": _recorded(
        "assignors.balancer", "self.high = loads[members[self._giving_start - 1]]", "self.high -= 1"),
    "hashes are not spread": _recorded(HASH_MAP, "(value ^ value >> 16)", "value"),
    "tables grow late": _recorded(HASH_MAP, "self._full = size * 2 * 3 // 4", "self._full = size * 2"),
    "computeIfAbsent grows as put does": _recorded(
        HASH_MAP, "        self._count += 1\n\n    def remove",
        "        self._count += 1\n        if self._count > self._full:\n            self._grow()\n\n"
        "    def remove",
    ),
    "computeIfAbsent adds at the end": _recorded(HASH_MAP, "bucket.insert(0, key)", "bucket.append(key)"),
    "computeIfAbsent tolerates one more": _recorded(
        HASH_MAP, "if len(bucket) >= _LONGEST_CHAIN:", "if len(bucket) > _LONGEST_CHAIN:"),
    "put tolerates one less": _recorded(
        HASH_MAP, "if len(bucket) > _LONGEST_CHAIN:", "if len(bucket) >= _LONGEST_CHAIN:"),
    "small tables have trees, too": _recorded(
        HASH_MAP, "_SMALLEST_TABLE_WITH_TREES = 64", "_SMALLEST_TABLE_WITH_TREES = 16"),
    "trees stay trees when they are split": _recorded(HASH_MAP, "_SHORTEST_TREE = 7", "_SHORTEST_TREE = 2"),
    "few keys are in no trees": _recorded(
        HASH_MAP, "        if any(map(eq, buckets, buckets[_LONGEST_CHAIN:])):\n", "        if False:\n"),
    "few keys do not let a table grow": _recorded(
        HASH_MAP, "before, size = size, grown(size, number)", "before = size"),
    "a root stays where it is": _recorded(TREE_BIN, "if root is not None and root is not self._first:", "if False:"),
    "a new key comes last": _recorded(
        TREE_BIN, "self._link(node, self._attach(node))",
        "self._attach(node)\n        self._link(node, self._nodes[[*self][-1]])"),
    "trees are never too small": _recorded(
        TREE_BIN, "small = left is None or right is None or left.children[LEFT] is None", "small = False"),
    "red siblings do not matter": _recorded(TREE_BIN, "if sibling.red:", "if False:"),
    "hashes are compared without their sign": _recorded(TREE_BIN, " ^ 0x80000000", ""),
    "keys of one hash have no order": _recorded(TREE_BIN, "(signed, self._order(key))", "(signed, len(self._nodes))"),
    "a slot begins with its first key": _recorded(HASH_MAP, "list(keys)[::-1]", "list(keys)"),
    "timeline tables grow late": _recorded(HASH_MAP, "if (keys + 1) * 0.75 > table", "if keys * 0.75 > table"),
    "names are a table of the usual size": _recorded(
        HASH_MAP, "collected(STRINGS, names, max(roomy(len(names)), SMALLEST_TABLE))", "collected(STRINGS, names)"),
    "of two sets as large the first comes first": _recorded(
        HASH_MAP, "if len(names) > len(matched)", "if len(names) >= len(matched)"),
    "errors are described as by RE2": _recorded(
        "expressions", "RE2J_DESCRIPTIONS.get(description, description)", "description", "expressions"),
    "part of a name is enough": _recorded("expressions", "compiled.fullmatch", "compiled.search", "expressions"),
    "an id is read from behind": _recorded("metadata_hash", "topic_id[7::-1]", "topic_id[:8]", "metadata_hash"),
    "the halves of an id change places": _recorded("metadata_hash", "topic_id[:7:-1]", "topic_id[8:]", "metadata_hash"),
    "no magic byte": _recorded("metadata_hash", "bytearray(_MAGIC)", "bytearray()", "metadata_hash"),
    "strings have no length": _recorded(
        "metadata_hash", "    data += _INT.pack(len(units) // 2)\n", "", "metadata_hash"),
    "strings are as long as their bytes": _recorded("metadata_hash", "len(units) // 2", "len(units)", "metadata_hash"),
    "racks have no length": _recorded(
        "metadata_hash", "            data += _INT.pack(len(string_order(rack)) // 2)\n", "", "metadata_hash"),
    "racks are as long as their characters": _recorded(
        "metadata_hash", "len(string_order(rack)) // 2", "len(rack)", "metadata_hash"),
    "racks have no order": _recorded("metadata_hash", "sorted(each, key=string_order)", "each", "metadata_hash"),
    "racks are in order of code points": _recorded(
        "metadata_hash", "sorted(each, key=string_order)", "sorted(each)", "metadata_hash"),
    "racks are a set": _recorded(
        "metadata_hash", "sorted(each, key=string_order)", "sorted(set(each), key=string_order)", "metadata_hash"),
    "partitions have no number": _recorded(
        "metadata_hash", "        data += _INT.pack(partition)\n", "", "metadata_hash"),
    "topics have no order": _recorded(
        "metadata_hash", "sorted(topic_hashes, key=string_order)", "topic_hashes", "metadata_hash"),
    "a hash is not signed": _recorded("metadata_hash", "if value >> 63", "if False", "metadata_hash"),
}
# fmt: on
