"""Which requests a fault hits."""

from __future__ import annotations

import pytest

from coordinatord.server.control.faults import NO_FAULT_FOR, Fault, Faults
from coordinatord.server.control.problems import ControlError
from kafka_wire.api_key import ApiKey


def hits(faults: Faults, count: int, api: ApiKey = ApiKey.HEARTBEAT, client: str = "a", group: str = "g") -> list[bool]:
    """Of `count` requests, which are hit."""
    return [faults.meet(api, client, lambda: frozenset({group})) is not None for _ in range(count)]


def test_a_fault_without_limits_hits_all_of_its_api() -> None:
    faults = Faults()
    fault = faults.add("hold", api="Heartbeat")
    assert hits(faults, 3) == [True] * 3
    assert hits(faults, 1, ApiKey.FETCH) == [False]
    assert (fault.matched, fault.hits) == (3, 3)


def test_a_fault_of_no_api_hits_all() -> None:
    faults = Faults()
    faults.add("drop", client="a")
    assert hits(faults, 1, ApiKey.FETCH) == hits(faults, 1, ApiKey.METADATA) == [True]
    assert hits(faults, 1, ApiKey.FETCH, client="b") == [False]


def test_client_and_group() -> None:
    faults = Faults()
    faults.add("hold", api="Heartbeat", client="a", group="g")
    assert hits(faults, 1) == [True]
    assert hits(faults, 1, client="b") == [False]
    assert hits(faults, 1, group="h") == [False]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"times": 2}, "xx..."),
        ({"nth": 2}, ".x..."),
        ({"every": 2}, ".x.x."),
        ({"every": 2, "times": 1}, ".x..."),
        ({"probability": 1.0}, "xxxxx"),
    ],
)
def test_limits(limits: dict[str, float], expected: str) -> None:
    faults = Faults()
    faults.add("hold", api="Heartbeat", **limits)  # type: ignore[arg-type]
    assert "".join("x" if hit else "." for hit in hits(faults, 5)) == expected


def test_the_seed_decides_the_chances() -> None:
    def story(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add("hold", api="Heartbeat", probability=0.5)
        return hits(faults, 40)

    assert story(1) == story(1) != story(2)
    assert 5 < sum(story(1)) < 35


def test_another_fault_does_not_change_the_chances() -> None:
    def story(*, with_another: bool) -> list[bool]:
        faults = Faults(3)
        fault = faults.add("hold", api="Heartbeat", probability=0.5)
        if with_another:
            faults.add("hold", api="Fetch", probability=0.5)
        found = []
        for _ in range(40):
            if with_another:
                faults.meet(ApiKey.FETCH, "a", frozenset)
            found.append(faults.meet(ApiKey.HEARTBEAT, "a", frozenset) is fault)
        return found

    assert story(with_another=True) == story(with_another=False)


def test_the_first_of_two_faults_hits_until_it_is_over() -> None:
    faults = Faults()
    first = faults.add("hold", api="Heartbeat", times=1)
    second = faults.add("drop", client="a")
    found = [faults.meet(ApiKey.HEARTBEAT, "a", frozenset) for _ in range(2)]
    assert found == [first, second]
    assert (second.matched, second.hits) == (1, 1)


def test_the_tests_own_requests_are_never_hit() -> None:
    faults = Faults()
    faults.add("drop")
    assert hits(faults, 1, client=NO_FAULT_FOR) == [False]


def test_a_removed_fault_hits_no_more() -> None:
    faults = Faults()
    fault = faults.add("hold", api="Heartbeat")
    faults.remove(fault.number)
    assert not faults.may_hit(ApiKey.HEARTBEAT)
    assert hits(faults, 1) == [False]
    with pytest.raises(ControlError, match="There is no fault 1 now; there are none"):
        faults.remove(fault.number)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "fial"}, "There is no fault 'fial'. Did you mean fail?"),
        ({"kind": "hold", "api": "Hartbeat"}, "There is no API 'Hartbeat'. Did you mean Heartbeat?"),
        ({"kind": "hold", "api": "HEARTBEAT"}, "There is no API 'HEARTBEAT'. Did you mean Heartbeat?"),
        (
            {"kind": "fail", "api": "Heartbeat", "error": "NotCoordinator"},
            "There is no error 'NotCoordinator'. Did you mean NOT_COORDINATOR?",
        ),
        ({"kind": "fail", "api": "Heartbeat", "error": "NONE"}, "NONE is no error"),
        ({"kind": "fail", "api": "Heartbeat"}, "fail needs an error, such as NOT_COORDINATOR."),
        ({"kind": "fail", "error": "NOT_COORDINATOR"}, "fail needs an API"),
        ({"kind": "hold", "api": "Heartbeat", "error": "NOT_COORDINATOR"}, "hold takes no error."),
        ({"kind": "hold", "times": 0}, "times counts from 1, so 0 hits nothing."),
        ({"kind": "hold", "nth": 2, "times": 2}, "nth names one request"),
        ({"kind": "hold", "probability": 0.0}, "probability is above 0 and at most 1, not 0.0."),
        ({"kind": "delay", "delay_ms": -1}, "A delay of -1 ms would be in the past."),
    ],
)
def test_mistakes_get_a_sentence(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(ControlError) as description:
        Faults().add(**arguments)  # type: ignore[arg-type]
    assert str(description.value).startswith(sentence)


def test_a_fault_in_words() -> None:
    fault: Fault = Faults().add("fail", api="OffsetCommit", error="NOT_COORDINATOR", client="a", times=3)
    assert fault.description() == "fail OffsetCommit with NOT_COORDINATOR (client a, 3 times)"
    assert Faults().add("drop", api="Produce", after=True).description() == "drop after it is processed Produce"
