"""No request costs over a tenth more than it did, unless somebody says why; and that this would be noticed."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.group.state import Member
from coordinatord.coordination.service.apis.membership import Membership
from coordinatord.server.fastpath.heartbeats import Heartbeats
from tests.guard import figures
from tests.guard.count import ROOT, count
from tests.guard.script import SCRIPTS

pytestmark = pytest.mark.interpreted

HOW = 'If it has to be, say why: python -m tests.guard --record "the reason" (tests/guard/README.md).'


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_request_costs_more_than_it_did(name: str) -> None:
    counted, _ = count(SCRIPTS[name])
    wrong = figures.grown(name, figures.load()[name], counted)
    assert not wrong, "\n".join([*wrong, HOW])


def test_every_figure_belongs_to_a_script_and_has_a_reason() -> None:
    stored = figures.load()
    assert stored.keys() == SCRIPTS.keys()
    assert all(entry["why"] for entry in stored.values())


def test_layers_more_around_a_handler_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"inner": Membership.heartbeat}
    layers = (
        "def layer(*arguments):\n    return inner(*arguments)\n"
        "def two(*arguments):\n    return layer(*arguments)\n"
        "def three(*arguments):\n    return two(*arguments)\n"
        "def heartbeat(*arguments):\n    return three(*arguments)\n"
    )
    exec(compile(layers, f"{ROOT}/coordinatord/coordination/service/apis/layer.py", "exec"), names)
    monkeypatch.setattr(Membership, "heartbeat", names["heartbeat"])
    counted, _ = count(SCRIPTS["heartbeat_decoded"])
    (wrong,) = figures.grown("heartbeat_decoded", figures.load()["heartbeat_decoded"], counted)
    assert "calls per request" in wrong


def test_a_heartbeat_that_is_decoded_although_it_is_like_the_one_before_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Heartbeats, "learn", lambda *_: None)
    counted, _ = count(SCRIPTS["heartbeat"])
    wrong = figures.grown("heartbeat", figures.load()["heartbeat"], counted)
    assert "heartbeat: calls" in [each.split(" per ")[0] for each in wrong]


def test_blocks_that_are_kept_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    inner = Member.keep_alive

    def keeping(self: Member, now_ms: int) -> None:
        kept.append((self, [now_ms], {}))
        inner(self, now_ms)

    monkeypatch.setattr(Member, "keep_alive", keeping)
    counted, _ = count(SCRIPTS["heartbeat"])
    wrong = figures.grown("heartbeat", figures.load()["heartbeat"], counted)
    assert [each.split(" per ")[0] for each in wrong] == ["heartbeat: held", "heartbeat: kept"]


def test_recording_keeps_what_has_not_changed() -> None:
    same = {"calls": 3.0, "held": 1.0, "kept": 0.0}
    less = {"calls": 4.0, "held": 1.0, "kept": 0.0}
    stored: figures.Stored = {"a": {"why": "first", **same}, "b": {"why": "first", **same}}
    recorded = figures.record(stored, {"a": same, "b": less, "c": less}, "second")
    assert recorded == {"a": stored["a"], "b": {"why": "second", **less}, "c": {"why": "second", **less}}
