"""Tables of every version that the current program reads, without Spark: their rows, and the report of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.report.read import OF_ALL, read
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION
from tests.compat import golden
from tests.compat.tables import NOW_MS, OUT, plain_rows, table_contents


@pytest.mark.parametrize("version", golden.all_versions("tables"))
def test_the_report_reads_them_or_says_why_not(version: int, tmp_path: Path) -> None:
    out = golden.unpack("tables", version, tmp_path) / OUT
    if version != STATE_VERSION:
        with pytest.raises(SourceError, match=f"has tables of version {version}"):
            read(out, 10)
        return
    tables = read(out, 10)
    expected = golden.recorded("tables", version)
    assert tables.at_ms == NOW_MS
    assert sorted(tables.shown) == ["audit", "billing", "ghost"]
    for name in OF_ALL:
        assert golden.plain(plain_rows(tables.rows[name])) == expected[f"tables/{name}"]["rows"], name


def test_the_rows_of_the_current_version(tmp_path: Path) -> None:
    version = golden.CURRENT["tables"]
    assert version in golden.all_versions("tables"), "run `python -m tests.compat`"
    golden.unpack("tables", version, tmp_path)
    expected = golden.recorded("tables", version)
    expected.pop("declared")
    assert golden.plain(table_contents(tmp_path)) == expected
