"""Values that inherit what dataclass would generate behave as if it had; so do messages, which make theirs by need."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from kafka_wire.schema import array, int32, message, string
from kafka_wire.values import FrozenValue, Value, frozen


@dataclass(slots=True, repr=False, eq=False)
class Changing(Value):
    name: str
    number: int = 0
    note: str = field(default="", compare=False, repr=False)


@frozen
class Fixed(FrozenValue):
    name: str
    number: int = 0


@frozen
class Other(FrozenValue):
    name: str
    number: int = 0


def test_a_value_equals_others_of_its_class_with_equal_fields() -> None:
    assert Changing("a", 1, "x") == Changing("a", 1, "y")
    assert Changing("a", 1) != Changing("a", 2)
    assert Fixed("a") == Fixed("a", 0)
    assert Fixed("a") != Other("a")
    assert Fixed("a") != ("a", 0)


def test_only_what_never_changes_can_be_hashed() -> None:
    assert {Fixed("a"), Fixed("a"), Fixed("b")} == {Fixed("b"), Fixed("a")}
    with pytest.raises(TypeError, match="unhashable"):
        hash(Changing("a"))


def test_a_value_is_shown_as_a_dataclass_is() -> None:
    assert repr(Changing("a", 1, "x")) == "Changing(name='a', number=1)"
    assert repr(dataclasses.replace(Fixed("a"), number=2)) == "Fixed(name='a', number=2)"


@message(versions="0-2", api_key=1)
class Asked:
    name: str = string("0+")
    numbers: list[int] = array(int32, "0+")
    since: int = int32("1+", default=-1)


def test_a_message_makes_each_method_when_it_is_asked_for() -> None:
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
