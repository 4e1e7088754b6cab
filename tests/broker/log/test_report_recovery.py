"""What a start tells of the partitions that it opens."""

from __future__ import annotations

from pathlib import Path

from coordinatord.base.observe.logger import captured
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.partition_log import LogConfig
from coordinatord.broker.log.report_recovery import SAY_EVERY_S, copying_progress, opening_progress
from coordinatord.server.postgresql import working_copy
from coordinatord.server.postgresql.contract import Growth, PartitionKey, row_of
from kafka_wire.records.batch import build_batch
from tests.server.postgresql.model import ModelDatabase

MOST = 21
"""When the last one is open, a line would be due, and there is nothing to wait for any more."""


def test_a_slow_opening_tells_now_and_then_how_far_it_is(tmp_path: Path) -> None:
    """Each partition takes two seconds by the clock, which is the test's."""
    data = DataDirectory.open(str(tmp_path))
    data.create("orders", list(range(MOST)), b"O" * 16, LogConfig())
    data.close()
    now_s = 0.0

    def clock_s() -> float:
        return now_s

    with captured() as lines:
        tell = opening_progress(clock_s)

        def opened(count: int, of: int) -> None:
            nonlocal now_s
            now_s += 2
            tell(count, of)

        DataDirectory.open(str(tmp_path), on_opened=opened).close()
    assert now_s == 2 * MOST
    assert SAY_EVERY_S == 5
    assert [(line["event"], line["partitions"], line["of"]) for line in lines] == [
        ("opening the log before listening", count, MOST) for count in (3, 6, 9, 12, 15, 18)
    ]


def test_a_quick_one_says_nothing() -> None:
    with captured() as lines:
        tell = opening_progress(lambda: 0.0)
        for count in range(MOST):
            tell(count + 1, MOST)
    assert lines == []


def test_a_slow_copy_of_a_database_tells_now_and_then_how_much_it_has(tmp_path: Path) -> None:
    """Each batch takes two seconds by the clock."""
    store, key = ModelDatabase().take(), PartitionKey(b"O" * 16, 0)
    batches = [bytes(build_batch([(b"k", b"v" * at)], 1_000, at)) for at in range(MOST)]
    store.append([Growth(key, "orders", 0, MOST)], [row_of(key, 0, batch) for batch in batches])
    now_s = 0.0

    def clock_s() -> float:
        return now_s

    with captured() as lines:
        tell = copying_progress(clock_s)

        def read(size: int) -> None:
            nonlocal now_s
            now_s += 2
            tell(size)

        made = working_copy.make(store, tmp_path / "copy", cluster_id="cluster", node_id=0, on_read=read)
    assert made == sum(map(len, batches))
    assert [(line["event"], line["bytes"]) for line in lines] == [
        ("copying the log from the database before listening", sum(map(len, batches[:count])))
        for count in range(3, MOST + 1, 3)
    ]
