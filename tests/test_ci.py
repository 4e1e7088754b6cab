"""The runner of the tiers: .ci/run and .ci/tiers.py."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.waiting import wait_until
from tests.daemon import REPOSITORY, is_running


@pytest.fixture
def tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with tiers of the test's own: set-up, two that are independent, and one that needs both cores."""
    spec = importlib.util.spec_from_file_location("tiers", REPOSITORY / ".ci" / "tiers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "tiers", module)  # dataclasses look for it
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(module, "SET_UP", (module.Tier("packages", "set-up", ["echo packages >>order"]),))
    monkeypatch.setattr(
        module,
        "TIERS",
        (
            module.Tier("good", "passes", ["echo good{gate} >>order; echo '1.25s call  test_a'"], needs=["packages"]),
            module.Tier(
                "bad", "fails", ["echo 'E   no such thing'; echo more; false", "echo bad >>order"], needs=["packages"]
            ),
            module.Tier("alone", "needs the machine", ["echo alone >>order"], cores=2, needs=["packages"]),
        ),
    )
    return module


def test_a_tier_that_is_not_there_is_one_sentence() -> None:
    done = subprocess.run(
        ["bash", ".ci/run", "quick", "quikc"], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(".ci/run: there is no tier quikc; there are spark, lint, quick, ")
    assert done.stdout == ""


def test_one_that_fails_fails_the_run_and_the_others_are_run(
    tiers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiers.main([]) == 1
    first, *others, last = (tmp_path / "order").read_text().splitlines()
    assert (first, sorted(others), last) == ("packages", ["bad", "good and not in_full"], "alone")
    out = capsys.readouterr().out
    assert re.search(r"=== bad: FAILED in \d+ s", out)
    assert "slowest of good:\n    1.2 s  test_a" in out
    assert out.endswith("\n\n=== bad failed:\nE   no such thing\n\n=== failed: bad\n")


def test_where_a_test_waited_for_ever_is_told_at_the_end(tiers: Any) -> None:
    """What faulthandler says comes amid the dots, from a worker's standard error."""
    stands = [
        "Timeout (0:16:00)!",
        "Thread 0x7f (most recent call first):",
        '  File "tests/a.py", line 3 in test_a',
    ]
    output = ["..", *stands, "[gw1] node down: Not properly terminated", ".....", "FAILED tests/a.py::test_a"]
    assert tiers.errors("\n".join(output)) == [*stands, "FAILED tests/a.py::test_a"]


def test_one_tier_with_its_set_up(tiers: Any, tmp_path: Path) -> None:
    assert tiers.main(["good"]) == 0
    assert (tmp_path / "order").read_text().splitlines() == ["packages", "good and not in_full"]


def test_all_leaves_nothing_out(tiers: Any, tmp_path: Path) -> None:
    tiers.main(["all"])
    assert "good\n" in (tmp_path / "order").read_text()


def test_without_its_set_up_a_tier_is_left_out_and_has_failed(
    tiers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "SET_UP", (tiers.Tier("packages", "set-up", ["exit 3"]),))
    assert tiers.main([]) == 1
    assert not (tmp_path / "order").exists()
    assert capsys.readouterr().out.endswith("=== failed: packages good bad alone\n")


def test_what_waits_for_ever_is_killed_and_the_others_are_told(
    tiers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it has started: a process that is left holds what the next run needs."""
    waits = "sleep 600 & echo $! >pid; wait"
    monkeypatch.setattr(tiers, "GATE_S", 8)
    monkeypatch.setattr(
        tiers, "TIERS", (tiers.Tier("waits", "hangs", [waits]), tiers.Tier("good", "passes", ["echo well"]))
    )
    assert tiers.main([]) == 1
    out = capsys.readouterr().out
    assert "killed: the gate has no more time\n=== waits: FAILED" in out
    assert "=== good: passed" in out
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid), "the process that it had started to end")
