"""Tables of the current version: those that are checked in are continued, and those that a run makes are like them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.group_at import check_facts, moment
from coordinatord.monitoring.pipeline.run.preflight import check_out
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION
from coordinatord.monitoring.pipeline.run.update import read_table
from coordinatord.monitoring.pipeline.tables import TABLES
from tests.compat import golden
from tests.compat.tables import NOW_MS, OUT, declared, run_tables, table_contents, write_tables

VERSION = golden.CURRENT["tables"]


@pytest.mark.timeout(1200)
def test_a_run_writes_the_rows_and_columns_of_the_current_version(spark: Any, tmp_path: Path) -> None:
    write_tables(spark, tmp_path)
    now, then = golden.plain(table_contents(tmp_path)), golden.recorded("tables", VERSION)
    assert declared() == then.pop("declared"), golden.HOW_TO_GO_ON
    assert now.keys() == then.keys(), golden.HOW_TO_GO_ON
    for name, table in then.items():
        told = f"{name} is not what version {VERSION} of the tables has. {golden.HOW_TO_GO_ON}"
        assert now[name]["columns"] == table["columns"], told
        assert now[name]["rows"] == table["rows"], told


@pytest.mark.timeout(1200)
def test_a_run_continues_the_tables_that_are_checked_in(spark: Any, tmp_path: Path) -> None:
    golden.unpack("tables", VERSION, tmp_path)
    out = tmp_path / OUT
    for name in TABLES:
        rows = golden.recorded("tables", VERSION)[f"tables/{name}"]["rows"]
        assert read_table(spark, out, name).count() == len(rows), name
    found = moment(spark, out, "billing", NOW_MS)
    assert {partition: offset.offset for partition, offset in found.offsets.items()} == {
        ("orders", 0): 3,
        ("orders", 1): 4,
    }
    summary = run_tables(spark, tmp_path)
    assert summary.new == {}, "all of the log had been read"
    contents = golden.plain(table_contents(tmp_path))
    for name in TABLES:
        assert contents[f"tables/{name}"] == golden.recorded("tables", VERSION)[f"tables/{name}"]


def test_tables_of_a_later_version_are_not_touched(tmp_path: Path) -> None:
    golden.unpack("tables", VERSION, tmp_path)
    out = tmp_path / OUT
    state = json.loads((out / "state.json").read_text())
    (out / "state.json").write_text(json.dumps({**state, "version": STATE_VERSION + 1}))
    before = golden.digests(out)
    for refuse in (check_out, check_facts):
        with pytest.raises(SourceError, match=f"has tables of version {STATE_VERSION + 1}, and this program reads"):
            refuse(out)
    after = {name: digest for name, digest in golden.digests(out).items() if name in before}
    assert after == before
