"""How outcomes are made comparable, compared and told. Quick: part of `make test`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.clients.families import toolchains
from tests.clients.families.clients import CLIENTS
from tests.clients.surface.compare import problems, rows
from tests.clients.surface.counting_proxy import Heads
from tests.clients.surface.differences import KNOWN
from tests.clients.surface.families import FAMILIES, PROGRAMS, Family
from tests.clients.surface.outcome import Outcome, canonical
from tests.clients.surface.table import PAGE, sections

FAMILY = Family(FAMILIES[0].name, "1.0", FAMILIES[0].command)


def outcome(method: str, detail: Any = None, outcome: str = "ok", case: str = "") -> Outcome:
    return Outcome("admin", method, case, outcome, detail)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"topic": "word-topic"}, {"topic": "PREFIX-topic"}),
        ({"word-topic-0": [1, None, True]}, {"PREFIX-topic-0": [1, None, True]}),
        ({"host": "127.0.0.1", "port": 9092}, {"host": "…", "port": "…"}),
        ({"memberId": "a", "MemberID": "b", "member_id": ""}, {"memberId": "…", "MemberID": "…", "member_id": ""}),
        ({"memberId": None}, {"memberId": None}),
        ("at 127.0.0.1:9092", "at …"),
        ("a-9b2d7a3e-0c5f-4a57-8f0e-3d7c6b1f2a10", "a-…"),
        ({"time": 1795363583370, "other": 1000}, {"time": "…", "other": 1000}),
    ],
)
def test_what_differs_from_run_to_run_is_taken_out(said: Any, told: Any) -> None:
    assert canonical(said, "word") == told


def test_what_differs_must_be_listed_and_what_is_listed_must_differ() -> None:
    known = {"admin.b": "why", "admin.c": "why", "admin.gone": "why"}
    kafka = [outcome("a", 1), outcome("b", 1), outcome("c", 1), outcome("d", 1), outcome("e", "X", "error")]
    ours = [outcome("a", 1), outcome("b", 2), outcome("c", 1), outcome("d", 2), outcome("e", None)]
    found = problems(rows(kafka, ours, known), known)
    assert [each.split("\n")[0] for each in found] == [
        "admin.c: listed as a difference, but both say ok 1",
        "admin.d differs",
        "admin.e differs",
        "admin.gone: listed as a difference, but no such call",
    ]


def test_a_method_that_nobody_calls_is_a_problem() -> None:
    new = [outcome("new_method", outcome="not covered")]
    (found,) = problems(rows(new, new, {}), {})
    assert found.startswith("admin.new_method: not covered")


def test_both_runs_must_make_the_same_calls_once() -> None:
    with pytest.raises(AssertionError, match=r"other calls: \['admin.b'\]"):
        rows([outcome("a"), outcome("b")], [outcome("a")], {})
    with pytest.raises(AssertionError, match="called twice"):
        rows([outcome("a")] * 2, [outcome("a")] * 2, {})


def test_the_page_tells_of_each_family_and_of_each_listed_difference() -> None:
    """Whether it is stale in other ways is for those who have Kafka."""
    told = sections(PAGE.read_text())
    assert list(told) == [family.name for family in FAMILIES]
    assert KNOWN.keys() <= told.keys()
    for family in FAMILIES:
        assert told[family.name].startswith(f"## {family.name} {family.version}\n")
        for key, reason in KNOWN.get(family.name, {}).items():
            assert f"| {key} |" in told[family.name], f"{family.name} {key}"
            assert f"| {reason} |" in told[family.name], f"{family.name} {key}"


def test_versions_are_those_of_the_scenarios() -> None:
    names = [client.name for client in CLIENTS]
    for family in FAMILIES:
        assert any(name.startswith(family.name) and f" {family.version}" in name for name in names), family.name
    assert modules(PROGRAMS) == modules(toolchains.PROGRAMS)


def modules(programs: Path) -> set[str]:
    """What its go.mod requires, at which version."""
    lines = (programs / "go" / "go.mod").read_text().splitlines()
    return {line.strip().removesuffix(" // indirect") for line in lines if line.startswith("\t")}


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_the_proxy_finds_the_head_of_each_request(step: int) -> None:
    def request(api_key: int, client_id: bytes | None, rest: bytes) -> bytes:
        named = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
        frame = struct.pack(">hhi", api_key, 2, 7) + named + rest
        return struct.pack(">i", len(frame)) + frame

    stream = request(3, b"one", b"x" * 100) + request(18, None, b"") + request(12, b"", b"y")
    heads = Heads()
    seen = [each for at in range(0, len(stream), step) for each in heads.feed(stream[at : at + step])]
    assert [(each.api_key, each.api_version, each.client_id) for each in seen] == [
        (3, 2, "one"),
        (18, 2, ""),
        (12, 2, ""),
    ]
