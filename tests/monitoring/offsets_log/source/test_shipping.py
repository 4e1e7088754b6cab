"""The zip file by which a cluster's executors get this package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coordinatord.monitoring.pipeline.source.shipping import archive, pack

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(tmp_path_factory.mktemp("shipped") / "coordinatord.zip")


def test_it_has_each_module_and_no_recorded_story(packed: Path) -> None:
    with zipfile.ZipFile(packed) as file:
        names = file.namelist()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "coordinatord").rglob("*.py")}
    modules |= {str(path.relative_to(ROOT / "protocol")) for path in (ROOT / "protocol/kafka_wire").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    assert [name for name in names if not name.endswith(".py")] == ["kafka_wire/generated/digest.txt"]
    assert len(names) == len(set(names))


def test_it_can_be_imported(packed: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(packed)!r})\n"
    program += "from coordinatord.monitoring.offsets_log.decode import row_types; print(row_types)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/", check=False)
    assert f"{packed}/coordinatord/monitoring/offsets_log/decode/row_types.py" in done.stdout, done.stderr


def test_spark_in_this_process_needs_none() -> None:
    assert pack("local[2]") is None
