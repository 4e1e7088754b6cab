"""The authorizer's decisions, beside a model that looks at every ACL for every question."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.transport.security.authorizer import (
    MAX_DECIDED_BYTES,
    Acl,
    AclFilter,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    record_of,
)
from kafka_wire.records.cluster_metadata import RemoveAccessControlEntryRecord

Op, R = Operation, ResourceType
NAMES = ("a", "ab", "abc", "b", "*", "ba")
PRINCIPALS = ("User:alice", "User:bob", "Group:alice", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OPERATIONS = tuple(Op)[1:]

acls = st.builds(
    Acl,
    st.sampled_from((R.TOPIC, R.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from((Op.ALL, Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS)),
    st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
)


def made(found: Sequence[Acl], *, super_users: Sequence[str] = (), allow_if_no_acl: bool = False) -> Authorizer:
    authorizer = Authorizer(super_users, allow_if_no_acl=allow_if_no_acl)
    for number, acl in enumerate(found):
        authorizer.replay(record_of(number.to_bytes(16, "big"), acl))
    return authorizer


def model(
    found: Sequence[Acl], who: str, host: str, operation: Operation, kind: int, name: str, *, default: bool
) -> bool:
    """KIP-11, KIP-290 and Kafka's documentation, with no cleverness."""

    def is_about(acl: Acl) -> bool:
        if acl.resource_type != kind:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.name)
        return acl.name in ("*", name)

    about = [acl for acl in found if is_about(acl)]
    if not about:
        return default
    mine = [acl for acl in about if acl.principal in (who, "User:*") and acl.host in ("*", host)]
    if any(acl.permission == Permission.DENY and acl.operation in (Op.ALL, operation) for acl in mine):
        return False
    allowed = {acl.operation for acl in mine if acl.permission == Permission.ALLOW}
    if allowed & {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}:
        allowed |= {Op.DESCRIBE}
    if Op.ALTER_CONFIGS in allowed:
        allowed |= {Op.DESCRIBE_CONFIGS}
    return bool(allowed & {Op.ALL, operation})


QUESTIONS = list(
    itertools.product(
        ("User:alice", "User:bob", "Group:alice", "User:carol"),
        ("10.0.0.1", "10.0.0.9"),
        (Op.READ, Op.WRITE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.DELETE),
        (R.TOPIC, R.GROUP, R.CLUSTER),
        ("a", "abc", "b", "c", ""),
    )
)


@settings(max_examples=100, deadline=None)
@given(st.lists(acls, max_size=12, unique=True), st.booleans())
def test_decisions_are_those_of_the_model(found: list[Acl], default: bool) -> None:
    authorizer = made(found, allow_if_no_acl=default)
    for question in QUESTIONS:
        assert authorizer.allows(*question) == model(found, *question, default=default), question  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(acls, max_size=10, unique=True), st.data())
def test_removed_acls_decide_nothing(found: list[Acl], data: st.DataObject) -> None:
    authorizer = made(found)
    for question in QUESTIONS[::7]:
        authorizer.allows(*question)  # what was decided before must be forgotten
    gone = data.draw(st.sets(st.sampled_from(range(len(found))))) if found else set()
    for number in gone:
        authorizer.replay(RemoveAccessControlEntryRecord(number.to_bytes(16, "big")))
    left = [acl for number, acl in enumerate(found) if number not in gone]
    assert len(authorizer) == len(left)
    for question in QUESTIONS[::3]:
        assert authorizer.allows(*question) == model(left, *question, default=False)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(acls, max_size=8, unique=True))
def test_who_may_write_some_topic(found: list[Acl]) -> None:
    """authorizeByResourceType is about implied resources, so it may be asked by trying names. It knows no implication,
    and is only asked for WRITE, which nothing implies.
    """
    authorizer = made(found)
    names = {each for acl in found for each in (acl.name, f"{acl.name}-x" if acl.pattern_type == 4 else acl.name)} | {
        "hardcode",
        "zzz",
    }
    names.discard("*")
    for who, host in itertools.product(("User:alice", "User:carol"), ("10.0.0.1", "10.0.0.9")):
        expected = any(model(found, who, host, Op.WRITE, R.TOPIC, name, default=False) for name in names)
        if expected:
            assert authorizer.allows_some(who, host, Op.WRITE, R.TOPIC)


@settings(deadline=None)
@given(st.lists(acls, max_size=10, unique=True))
def test_a_snapshot_makes_the_same_authorizer(found: list[Acl]) -> None:
    authorizer = made(found)
    again = Authorizer()
    for record in authorizer.records():
        again.replay(record)
    assert list(again.matching(AclFilter())) == list(authorizer.matching(AclFilter()))
    authorizer.clear()
    assert not len(authorizer)
    assert not authorizer.allows("User:alice", "10.0.0.1", Op.READ, R.TOPIC, "a")


def test_super_users_may_do_what_is_denied_to_all() -> None:
    deny = Acl(R.TOPIC, "*", PatternType.LITERAL, "User:*", "*", Op.ALL, Permission.DENY)
    authorizer = made([deny], super_users=["User:root"])
    assert authorizer.allows("User:root", "10.0.0.1", Op.DELETE, R.TOPIC, "a")
    assert authorizer.allows_some("User:root", "10.0.0.1", Op.WRITE, R.TOPIC)
    assert not authorizer.allows("User:alice", "10.0.0.1", Op.DELETE, R.TOPIC, "a")
    assert not authorizer.allows("Group:root", "10.0.0.1", Op.DELETE, R.TOPIC, "a")


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    """Of a client without rights that asks for groups with the longest names there are."""
    authorizer = made([])
    tracemalloc.start()
    for number in range(1_000):
        name = f"{number}-\U0001f600" + "x" * 32_000
        assert not authorizer.allows("User:eve", "10.0.0.1", Op.DESCRIBE, R.GROUP, name)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert authorizer.remembered_bytes <= MAX_DECIDED_BYTES
    assert held <= 1.2 * MAX_DECIDED_BYTES


@pytest.mark.parametrize("name", ["x" * 250, "white space", "", "..", "caf\u00e9", "\U0001f600" + "x" * 32_000])
def test_topics_that_cannot_exist_are_not_remembered(name: str) -> None:
    authorizer = made([Acl(R.TOPIC, "x", PatternType.PREFIXED, "User:bob", "*", Op.READ, Permission.ALLOW)])
    for _ in range(2):
        assert authorizer.allows("User:bob", "10.0.0.1", Op.READ, R.TOPIC, name) == name.startswith("x")
    assert authorizer.remembered_bytes == 0
    assert authorizer.allows("User:bob", "10.0.0.1", Op.READ, R.TOPIC, "x" * 249)
    assert authorizer.remembered_bytes > 0


def test_whether_some_topic_is_allowed_is_decided_once_and_again_after_a_change() -> None:
    """It takes a look at each ACL."""
    some = [Acl(R.TOPIC, f"t{n}", PatternType.LITERAL, "User:bob", "*", Op.READ, Permission.ALLOW) for n in range(50)]
    authorizer = made(some)
    who = "User:eve", "10.0.0.1", Op.WRITE, R.TOPIC
    assert not authorizer.allows_some(*who)
    looked = []

    def look(*asked: object) -> bool:
        looked.append(asked)
        return False

    decide, authorizer._decide_some = authorizer._decide_some, look  # type: ignore[method-assign]
    assert not authorizer.allows_some(*who)
    assert looked == []
    authorizer._decide_some = decide  # type: ignore[method-assign]
    added = Acl(R.TOPIC, "new", PatternType.LITERAL, "User:eve", "*", Op.WRITE, Permission.ALLOW)
    authorizer.replay(record_of(b"n" * 16, added))
    assert authorizer.allows_some(*who)


def test_what_is_denied_implies_nothing() -> None:
    allow = Acl(R.TOPIC, "a", PatternType.LITERAL, "User:alice", "*", Op.ALL, Permission.ALLOW)
    authorizer = made([allow, allow._replace(operation=Op.READ, permission=Permission.DENY)])
    assert not authorizer.allows("User:alice", "10.0.0.1", Op.READ, R.TOPIC, "a")
    assert authorizer.allows("User:alice", "10.0.0.1", Op.DESCRIBE, R.TOPIC, "a")
    assert authorizer.operations("User:alice", "10.0.0.1", R.TOPIC, "a") == 3576 - (1 << Op.READ)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (AclFilter(name="ab", pattern_type=PatternType.MATCH), {"ab", "a+", "*"}),
        (AclFilter(name="ab", pattern_type=PatternType.LITERAL), {"ab"}),
        (AclFilter(name="a", pattern_type=PatternType.PREFIXED), {"a+"}),
        (AclFilter(name="a"), {"a+"}),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(operation=Op.WRITE), set()),
        (AclFilter(R.GROUP), set()),
        (AclFilter(), {"ab", "a+", "*", "b"}),
    ],
)
def test_filters(asked: AclFilter, names: set[str]) -> None:
    def acl(name: str, pattern: PatternType) -> Acl:
        return Acl(R.TOPIC, name, pattern, "User:alice", "*", Op.READ, Permission.ALLOW)

    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    authorizer = made([acl("ab", literal), acl("a", prefixed), acl("*", literal), acl("b", literal)])
    found = authorizer.matching(asked)
    assert {each.name + "+" * (each.pattern_type == prefixed) for _id, each in filter(None, found)} == names
