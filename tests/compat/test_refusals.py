"""What a later program has written is refused in a sentence that says what to do, and left as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinatord.broker.log.errors import DataDirectoryError
from coordinatord.cli import cli
from coordinatord.cli.groups import story
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION, find_state, read_state
from kafka_wire.records.batch import build_batch
from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC
from tests.compat import golden
from tests.compat.contents import contents
from tests.compat.ledger import ledger_contents
from tests.daemon import REPOSITORY

LATER = 99


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The current version's data directory after a loss of power: nothing is replayed if it is refused."""
    return golden.unpack("data", golden.CURRENT["data"], tmp_path) / "crashed"


def change_version(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


def test_a_later_data_directory_is_not_started(data: Path) -> None:
    change_version(data / "meta.properties", "version=1\n", f"version={LATER}\n")
    before = golden.digests(data)
    command = [sys.executable, "-m", "coordinatord", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=REPOSITORY)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert f"has version {LATER}, of a later coordinatord; this one reads version 1: start the later one" in done.stderr
    after = golden.digests(data)
    after.pop(".lock", None)
    assert after == before


@pytest.mark.parametrize("name", ["topics.json", "groups.json", "producer_ids.json"])
def test_a_later_file_in_a_data_directory_is_not_read(data: Path, name: str) -> None:
    """Nobody is told to mend it: that is for damage."""
    change_version(data / name, '"version": 1', f'"version": {LATER}')
    with pytest.raises(
        DataDirectoryError, match=rf"{name} has version {LATER} and this program reads version 1: start"
    ):
        contents(data)


def write_records(directory: Path, *values: bytes | None) -> None:
    path = directory / f"{LEDGER_TOPIC}-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(build_batch([(b"billing", value) for value in values], 1_000, 0))


def ledger_record(version: object) -> dict[str, object]:
    record = golden.recorded("ledger", golden.CURRENT["ledger"])["entries"][0]["record"]
    return {**record, "version": version}


def test_a_later_record_of_the_ledger_ends_a_run(tmp_path: Path) -> None:
    write_records(tmp_path, json.dumps(ledger_record(1)).encode(), json.dumps(ledger_record(LATER)).encode())
    with pytest.raises(SourceError, match=rf"offset 1 of __rebalances-0 has version {LATER} and this program reads"):
        ledger_contents(tmp_path)


def test_what_is_no_record_of_the_ledger_is_passed_over(tmp_path: Path) -> None:
    """Deletions, and what somebody else has produced to a topic of that name."""
    others = (b"{", b"[1]", b"7", b'{"version": "one"}', b'{"group": "g"}', None)
    write_records(tmp_path, *others, json.dumps(ledger_record(1)).encode())
    assert [each["offset"] for each in ledger_contents(tmp_path)["entries"]] == [len(others)]


def test_groups_why_says_which_records_it_does_not_show() -> None:
    (line,) = story(ledger_record(LATER))  # type: ignore[arg-type]
    assert line == (
        f"One rebalance is not shown: its record has version {LATER} and this program reads versions up to "
        f"{golden.CURRENT['ledger']}: use the later coordinatord."
    )
    (line,) = story({"group": "billing"})
    assert line.startswith("One rebalance is not shown: its record is not a record of a rebalance")


@pytest.mark.parametrize(
    ("version", "what_to_do"),
    [
        (LATER, "use the later coordinatord that wrote them"),
        (STATE_VERSION - 1, "give `pipeline run` an empty directory with --out"),
        (None, "give `pipeline run` an empty directory with --out"),
    ],
)
def test_tables_of_another_version(version: int | None, what_to_do: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"version": version, "batch": 0, "runs": 1, "at_ms": 1}))
    for read in (find_state, read_state):
        with pytest.raises(SourceError, match=f"has tables of version {version}, .* reads version {STATE_VERSION}"):
            read(tmp_path)
    html = tmp_path / "lag.html"
    done = CliRunner().invoke(cli, ["pipeline", "report", "--out", str(tmp_path), "--html", str(html)])
    assert done.exit_code == 2
    assert what_to_do in done.output
    assert not html.exists()


def test_a_copy_is_what_these_tests_change(data: Path, tmp_path: Path) -> None:
    """Without a change, each of them is read."""
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    assert golden.plain(contents(copy)) == golden.recorded("data", golden.CURRENT["data"])
