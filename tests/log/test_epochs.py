"""Leader epochs: those that Kafka left behind go on here, and consumers may ask where each ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.log import DataDirectory, LogConfig, LogDamaged, epochs
from coordinatord.log.disk import OsDisk

EPOCHS = ((2, 10), (3, 25), (6, 40))
END_OFFSET = 50


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (-1, None),
        (0, (0, 10)),  # before the first that is known: nothing of it is left, so it ended where that begins
        (2, (2, 25)),
        (3, (3, 40)),
        (5, (3, 40)),  # nobody led with it
        (6, (6, END_OFFSET)),
        (7, None),
    ],
)
def test_where_an_epoch_ended(epoch: int, found: tuple[int, int] | None) -> None:
    """As Kafka's LeaderEpochFileCache.endOffsetFor says for the same entries."""
    assert epochs.end_of(EPOCHS, epoch, END_OFFSET) == found


def test_the_last_epoch_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path)
    data = DataDirectory.open(path)
    data.create("orders", [0, 1], b"0123456789abcdef", LogConfig())
    data.close()
    assert (tmp_path / "orders-1" / epochs.FILE).read_text() == "0\n1\n0 0\n"
    epochs.write(OsDisk(), str(tmp_path / "orders-0"), EPOCHS)
    data = DataDirectory.open(path)
    log = data.get("orders", 0)
    assert log is not None
    assert (log.leader_epoch, log.leader_epochs) == (6, EPOCHS)
    other = data.get("orders", 1)
    assert other is not None
    assert (other.leader_epoch, other.leader_epochs) == (0, epochs.FIRST)
    data.close()


@pytest.mark.parametrize("text", ["1\n0\n", "0\n1\n5\n", "0\n1\nfive 3\n", "nonsense"])
def test_a_malformed_file_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / epochs.FILE).write_text(text)
    with pytest.raises(LogDamaged, match="leader epoch checkpoint"):
        epochs.read(OsDisk(), str(tmp_path))


@pytest.mark.parametrize("text", [None, "", "0\n0\n"])
def test_without_entries_it_is_the_first_epoch(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / epochs.FILE).write_text(text)
    assert epochs.read(OsDisk(), str(tmp_path)) == epochs.FIRST
