"""Rows as Arrow record batches, and the README's recipes with them, as they stand there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinatord.monitoring.offsets_log.decode.row_types import KINDS
from coordinatord.monitoring.offsets_log.source.arrow import rows
from tests.monitoring.offsets_log.source.test_kafka_segments import rows_in
from tests.monitoring.pipeline.truth.model import Model
from tests.monitoring.pipeline.truth.world import World

README = Path(__file__).parents[4] / "coordinatord" / "monitoring" / "pipeline" / "README.md"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, str]:
    found = World(1)
    directory = tmp_path_factory.mktemp("log")
    found.write(directory)
    return found, str(directory)


def test_each_kind_has_its_schema_and_all_rows(world: tuple[World, str]) -> None:
    expected = rows_in(Path(world[1]))
    for kind in KINDS:
        reader = rows(kind, world[1])
        assert isinstance(reader, pa.RecordBatchReader)
        table = reader.read_all()
        assert table.schema == KINDS[kind].schema
        assert table.num_rows == len(expected.get(kind, []))
    one = rows("offset_commits", world[1], groups="looping").read_all()
    assert set(one.column("group_id").to_pylist()) == {"looping"}


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="there is no kind commits; there are offset_commits, "):
        rows("commits", "/none")


@pytest.mark.clients
@pytest.mark.parametrize("library", ["duckdb", "polars"])
def test_recipes(world: tuple[World, str], library: str) -> None:
    """What is committed last outside of transactions, where no transaction and no tombstone came."""
    if os.environ.get("CI") != "true":
        pytest.importorskip(library)
    [recipe] = [
        code
        for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        if f"import {library}" in code
    ]
    scope: dict[str, Any] = {}
    exec(recipe.replace("/var/lib/kafka/data", world[1]), scope)
    last = scope["last"].fetchall() if library == "duckdb" else scope["last"].rows()
    found = {row[:3]: row[3] for row in last}
    commits = rows("offset_commits", world[1]).read_all().to_pylist()
    special = {(row["group_id"], row["topic"], row["partition"]) for row in commits if row["transactional"]}
    expected = {
        key: row["committed_offset"]
        for key, row in Model(world[0]).standing().items()
        if key not in special and row["committed_offset"] is not None
    }
    assert len(expected) > 10
    assert {key: found[key] for key in expected} == expected
