"""The names in docs/testing.md are those of the code. test_docs_blocks.py runs its blocks."""

from __future__ import annotations

import re
from pathlib import Path

from coordinatord.testing import Group, Kafka, ShareGroup

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_each_method_that_it_names_is_there() -> None:
    for name in re.findall(r"`kafka\.(\w+)\(", PAGE) + re.findall(r"kafka\.(\w+)", BLOCKS[0]):
        assert hasattr(Kafka, name), name
    for name in re.findall(r"`(?:with )?group\.(\w+)\(", PAGE):
        assert hasattr(Group, name), name
    for name in re.findall(r"`share\.(\w+)", PAGE):
        assert hasattr(ShareGroup, name), name


def test_each_fault_is_there() -> None:
    rows = re.findall(r"^\| `(\w+)\(.*\)` \|", PAGE.partition("## Faults")[2].partition("\n## ")[0], re.M)
    assert {"fail", "delay", "hold", "drop", "disconnect", "duplicate", "blackhole"} == set(rows)
    assert all(hasattr(Kafka, name) for name in rows)
