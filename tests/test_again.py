"""What is tried again is told, and cannot hide what fails often."""

from __future__ import annotations

import pytest

from tests import again

pytest_plugins = ["pytester"]


def test_what_fails_once_may_and_what_fails_twice_may_not() -> None:
    assert again.verdict(40, {}) == []
    assert again.verdict(40, {"one": 0, "two": 1}) == []
    assert again.verdict(40, {"one": 0, "two": 2, "three": 4}) == [
        "two: failed at first, and 2 of 4 times when tried again",
        "three: failed at first, and 4 of 4 times when tried again",
    ]


def test_too_many_at_first_are_not_tried_again() -> None:
    assert not again.too_many(2, ["one"])
    assert again.too_many(2, ["one", "two"])
    assert again.verdict(10, dict.fromkeys(["a", "b", "c"], 0)) == []
    assert again.verdict(10, dict.fromkeys(["a", "b", "c", "d"], 0)) == ["4 of 10 failed at first: a, b, c, d"]


def test_a_run_tells_of_it_also_when_all_passed(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary")
    pytester.makepyfile(
        """
        from tests import again

        def test_stories(record_property):
            again.tell(record_property, "stories", 7, {"a crash": 1})

        def test_others(record_property):
            again.tell(record_property, "others", 40, {})
        """
    )
    ran = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=2)
    ran.stdout.fnmatch_lines(
        [
            "*tried again*",
            "others: 0 of 40 were tried again",
            "stories: 1 of 7 were tried again: a crash (failed 1 of 4 times more)",
        ]
    )
