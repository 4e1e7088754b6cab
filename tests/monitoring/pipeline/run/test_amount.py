"""What counts as a small log, and what is written of one: the same rows that Spark would write."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")


@pytest.mark.spark
def test_the_size_of_a_log(tmp_path: Path) -> None:
    from coordinatord.monitoring.pipeline.run.ingest import Job
    from coordinatord.monitoring.pipeline.run.input_size import (
        SMALL_BYTES,
        SMALL_OFFSETS,
        Amount,
        amount_of,
    )
    from coordinatord.monitoring.pipeline.source.frames import Source

    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    segment = directory / f"{0:020d}.log"
    for size, is_small in ((0, True), (SMALL_BYTES, True), (SMALL_BYTES + 1, False)):
        segment.touch()
        with segment.open("r+b") as file:
            file.truncate(size)
        amount = amount_of(Job(Source(str(tmp_path)), tmp_path / "out"))
        assert (amount.bytes, amount.is_small) == (size, is_small)
    assert not Amount(offsets=SMALL_OFFSETS + 1).is_small
