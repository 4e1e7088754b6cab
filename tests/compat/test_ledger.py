"""The ledger of rebalances in every version that there has been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.cli.groups import story
from tests.compat import golden
from tests.compat.ledger import ledger_contents, write_ledger


@pytest.mark.parametrize("version", golden.all_versions("ledger"))
def test_all_of_it_is_read(version: int, tmp_path: Path) -> None:
    """By the pipeline; and `coordinatord groups why` has words for it."""
    found = ledger_contents(golden.unpack("ledger", version, tmp_path))
    assert golden.plain(found) == golden.recorded("ledger", version)
    for each in found["entries"]:
        first, why, *_ = story(each["record"])
        trigger = each["record"]["trigger"]
        if each["record"].get("group_type") == "consumer":
            assert f"epoch {each['record']['generation_before']}" in first
            assert trigger["member_id"] in why
        else:
            assert f"generation {each['record']['generation_before']}" in first
            assert trigger["text"].partition(";")[0] in why


def test_the_script_writes_records_of_the_current_version(tmp_path: Path) -> None:
    """Fields may be added to a version; none may be changed or removed."""
    version = golden.CURRENT["ledger"]
    assert version in golden.all_versions("ledger"), "run `python -m tests.compat`"
    write_ledger(tmp_path)
    now = golden.plain(ledger_contents(tmp_path))["entries"]
    then = golden.recorded("ledger", version)["entries"]
    assert [each["group"] for each in now] == [each["group"] for each in then]
    for new, old in zip(now, then, strict=True):
        missing = lacking(new["record"], old["record"])
        assert not missing, f"{missing} is not what version {version} of the ledger has. {golden.HOW_TO_GO_ON}"


def lacking(new: Any, old: Any, path: str = "") -> list[str]:
    """Where `new` does not have what `old` has; more fields are not lacking."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = [f"{path}.{name}" for name in old if name not in new]
        return found + [each for name in old if name in new for each in lacking(new[name], old[name], f"{path}.{name}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [each for number, value in enumerate(old) for each in lacking(new[number], value, f"{path}[{number}]")]
    return [] if old == new and type(old) is type(new) else [f"{path}: {new!r} instead of {old!r}"]


def test_what_is_lacking() -> None:
    old = {"a": 1, "b": [{"c": None}]}
    assert lacking({"a": 1, "b": [{"c": None, "d": 2}], "e": 3}, old) == []
    assert lacking({"a": 1, "b": [{}]}, old) == [".b[0].c"]
    assert lacking({"a": "1", "b": []}, old) == [".a: '1' instead of 1", ".b: [] instead of [{'c': None}]"]
