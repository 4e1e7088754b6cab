"""Data directories of every version that there has been: their content is read, the current one's files are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat import golden
from tests.compat.contents import contents
from tests.compat.script import write_data


@pytest.mark.parametrize("end", ["stopped", "crashed"])
@pytest.mark.parametrize("version", golden.all_versions("data"))
def test_all_of_it_is_read(version: int, end: str, tmp_path: Path) -> None:
    """After a clean stop and after a loss of power: what the journal has is as good as what the segments have."""
    directory = golden.unpack("data", version, tmp_path) / end
    assert golden.plain(contents(directory)) == golden.recorded("data", version)


def test_a_directory_that_was_read_is_read_again(tmp_path: Path) -> None:
    directory = golden.unpack("data", golden.CURRENT["data"], tmp_path) / "crashed"
    contents(directory)
    found = golden.plain(contents(directory))
    expected = golden.recorded("data", golden.CURRENT["data"])
    assert found.pop("next_producer_id") > expected.pop("next_producer_id"), "the first reader asked for one"
    assert found == expected


def test_the_script_writes_the_files_of_the_current_version(tmp_path: Path) -> None:
    version = golden.CURRENT["data"]
    assert version in golden.all_versions("data"), "run `python -m tests.compat`"
    (tmp_path / "now").mkdir()
    write_data(tmp_path / "now")
    now = golden.digests(tmp_path / "now")
    then = golden.digests(golden.unpack("data", version, tmp_path / "then"))
    different = sorted(path for path in now.keys() | then.keys() if now.get(path) != then.get(path))
    assert not different, f"{different} are not what version {version} of data directories has. {golden.HOW_TO_GO_ON}"
