"""Which names the exporter watches."""

from __future__ import annotations

import pickle

import pytest

from coordinatord.monitoring.exporter import choice
from coordinatord.monitoring.exporter.choice import Choice


def watched(found: Choice, *names: str) -> list[str]:
    return [name for name in names if name in found]


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        ((), (), ["pay", "pay-2", "audit", "my-pay"]),
        (("pay.*",), (), ["pay", "pay-2"]),
        (("pay", "audit"), (), ["pay", "audit"]),
        ((), ("pay.*",), ["audit", "my-pay"]),
        (("pay.*",), (".*-2",), ["pay"]),
    ],
)
def test_expressions_match_whole_names(allow: tuple[str, ...], deny: tuple[str, ...], expected: list[str]) -> None:
    assert watched(Choice(allow, deny), "pay", "pay-2", "audit", "my-pay") == expected


def test_the_first_names_have_the_room() -> None:
    found = Choice(deny=("x",), room=2)
    assert watched(found, "a", "x", "b", "c", "d", "c", "a") == ["a", "b", "a"]
    assert (found.watched, found.left_out) == ({"a", "b"}, 2)


def test_names_that_are_gone_make_room() -> None:
    found = Choice(room=2)
    assert watched(found, "a", "b", "c", "d") == ["a", "b"]
    found.keep({"a", "b", "c"})
    assert (found.watched, found.left_out) == ({"a", "b"}, 2)
    found.keep({"a", "c"})
    assert (found.watched, found.left_out) == ({"a"}, 0)
    assert watched(found, "d", "c", "a") == ["d", "a"]
    assert found.left_out == 1
    found.keep({"d"})
    assert watched(found, "c") == ["c"]
    assert found.left_out == 0


def test_so_many_names_without_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MAX_TOLD", 3)
    found = Choice(room=0)
    assert watched(found, *map(str, range(10))) == []
    assert found.left_out == 3


def test_it_stays_in_its_process() -> None:
    with pytest.raises(TypeError, match="for one process"):
        pickle.dumps(Choice())
