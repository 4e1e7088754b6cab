"""A message is a dataclass with slots."""

from __future__ import annotations

import dataclasses

import pytest

from kafka_wire.schema import array, int32, message, string


@message(versions="0-2", api_key=1)
class Asked:
    name: str = string("0+")
    numbers: list[int] = array(int32, "0+")
    since: int = int32("1+", default=-1)


def test_a_message_is_a_dataclass() -> None:
    first = Asked("a")
    assert (first.name, first.numbers, first.since) == ("a", [], -1)
    assert first == Asked("a", [], -1)
    assert first != Asked("b")
    assert first.numbers is not Asked("a").numbers
    assert repr(first) == "Asked(name='a', numbers=[], since=-1)"
    assert dataclasses.replace(first, since=5) == Asked("a", since=5)
    assert [each.name for each in dataclasses.fields(Asked)] == ["name", "numbers", "since"]
    assert not hasattr(first, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Asked(other=1)  # type: ignore[call-arg]  # what is tested
