"""Shares of hunts rotate, and leave nothing out for good."""

from __future__ import annotations

import os

import pytest

from tests import shares

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever share this run was asked for."""
    monkeypatch.delenv(shares.VARIABLE, raising=False)
    monkeypatch.delenv(shares.KEPT, raising=False)


def test_daemons_do_not_see_which_share_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would refuse to start: there is no such setting. The tests of a run in full know it all the same."""
    monkeypatch.setenv(shares.VARIABLE, "all")
    monkeypatch.setenv(shares.KEPT, "")
    shares.keep()
    assert shares.VARIABLE not in os.environ
    assert shares.in_full()


def test_every_part_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for turn in range(4):
        monkeypatch.setattr(shares, "turn", lambda turn=turn: turn)
        monkeypatch.delenv(shares.VARIABLE, raising=False)
        seen += shares.chosen(range(10), 4)
    assert sorted(seen) == list(range(10))


def test_a_hunt_that_is_shorter_than_its_share_still_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shares.VARIABLE, raising=False)
    for turn in range(10):
        monkeypatch.setattr(shares, "turn", lambda turn=turn: turn)
        assert len(shares.chosen("ab", 5)) == 1


def test_all_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shares.VARIABLE, "all")
    assert shares.chosen(range(10), 5) == list(range(10))


@pytest.mark.parametrize(("arguments", "passed", "deselected"), [([], 7, 4), (["--rotate", "2"], 5, 6)])
def test_rows_that_are_left_out(
    arguments: list[str], passed: int, deselected: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nmarkers = rotating(of): x\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest(
        "from tests import shares\n"
        "def pytest_addoption(parser): parser.addoption('--rotate', type=int, default=1)\n"
        "def pytest_collection_modifyitems(config, items): shares.deselect(config, items)\n"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.rotating(3)
        @pytest.mark.parametrize("number", range(6))
        def test_hunt(number):
            assert number in (1, 4)

        @pytest.mark.parametrize("number", range(4))
        def test_rows(number): ...

        def test_other(): ...
        """
    )
    monkeypatch.setenv(shares.VARIABLE, "31")
    shares.turn.cache_clear()
    pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", *arguments).assert_outcomes(
        passed=passed, deselected=deselected
    )
    shares.turn.cache_clear()


def test_files_that_wait_for_their_turn(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini("[pytest]\nmarkers = in_turn(group, of): x\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest(
        "from tests import shares\n"
        "def pytest_addoption(parser): parser.addoption('--rotate', type=int, default=1)\n"
        "def pytest_collection_modifyitems(config, items): shares.deselect(config, items)\n"
    )
    for number in range(4):
        pytester.makepyfile(
            **{
                f"test_long_{number}": f"""
                import pytest

                pytestmark = pytest.mark.in_turn("long", 3)

                def test_first(): assert {number} in (1, 2)
                def test_second(): ...
                """
            }
        )
    pytester.makepyfile(test_other="def test_always(): ...")
    for turn, passed in (("31", 3), ("32", 3)):
        monkeypatch.setenv(shares.VARIABLE, turn)
        shares.turn.cache_clear()
        pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=passed, deselected=6)
    pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "test_long_1.py").assert_outcomes(passed=2)
    shares.turn.cache_clear()
