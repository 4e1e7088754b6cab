"""Change events: the processor alone (Spark's TwsTester), and in a query that is stopped and started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from coordinatord.monitoring.analysis.changes import REFRESH_MS, Seen, Thresholds
from coordinatord.monitoring.pipeline.run import events
from coordinatord.monitoring.pipeline.tables.events import COLUMNS

RULES = Thresholds(stuck_ms=60_000, storm_count=3, storm_ms=100_000, expiring_ms=3_600_000)
LOOKS = pa.schema(
    [
        ("group_id", pa.string()),
        ("at_ms", pa.int64()),
        ("has_members", pa.bool_()),
        ("rebalances_ms", pa.list_(pa.int64())),
        (
            "partitions",
            pa.list_(
                pa.struct(
                    [("topic", pa.string()), ("partition", pa.int32())]
                    + [(name, pa.int64()) for name in Seen._fields[2:]]
                )
            ),
        ),
    ]
)


def partition(
    number: int, committed: int, end: int | None, made_s: int, expires_s: int | None = None
) -> dict[str, Any]:
    expires_ms = None if expires_s is None else expires_s * 1000
    return Seen("t", number, committed, made_s * 1000, end, expires_ms)._asdict()


def look(at_s: int, *partitions: dict[str, Any], rebalanced_s: tuple[int, ...] = ()) -> dict[str, Any]:
    return {
        "at_ms": at_s * 1000, "has_members": True, "rebalances_ms": [second * 1000 for second in rebalanced_s],
        "partitions": list(partitions),
    }  # fmt: skip


def told(rows: Any) -> list[tuple[Any, ...]]:
    return [(r["kind"], r["change"], r["partition"], r["since_ms"] // 1000, r["at_ms"] // 1000) for r in rows]


class Group:
    """One group's looks, through the processor as Spark calls it."""

    def __init__(self) -> None:
        self.tester = TwsTester(events.Judge(RULES), timeMode="ProcessingTime")

    def see(self, *looks: dict[str, Any], group: str = "g") -> list[tuple[Any, ...]]:
        rows = [Row(**{**each, "partitions": [Row(**p) for p in each["partitions"]]}) for each in looks]
        return told(self.tester.test(group, rows))

    def remembered(self, group: str = "g") -> set[tuple[str, int]]:
        return set(self.tester.peekMapState("partitions", group))


def test_what_a_group_is_told() -> None:
    it = Group()
    assert not it.see(look(0, partition(0, 5, 10, 0), partition(1, 5, 5, 0)))
    assert it.see(look(60, partition(0, 5, 20, 0), partition(1, 5, 5, 0))) == [("stuck", "began", 0, 0, 60)]
    assert not it.see(look(90, partition(0, 5, 30, 0), partition(1, 5, 5, 0)))
    assert it.see(look(120, partition(0, 6, 40, 120), partition(1, 5, 5, 0))) == [("stuck", "recovered", 0, 0, 120)]


def test_several_looks_at_once_are_taken_in_their_order() -> None:
    """A follower that was down, or slow, judges as one that was not."""
    looks = []
    for second in range(0, 400, 30):
        made_s = 120 * (second // 120)  # it moves every two minutes
        looks.append(look(second, partition(0, made_s, 1000 + second, made_s)))
    late, steps = Group(), Group()
    found = late.see(*reversed(looks))
    assert found == [event for each in looks for event in steps.see(each)]
    assert [each[1] for each in found] == ["began", "recovered"] * 3


def test_groups_do_not_know_of_each_other() -> None:
    it = Group()
    for group in ("a", "b"):
        assert not it.see(look(0, partition(0, 5, 10, 0)), group=group)
    assert it.see(look(60, partition(0, 5, 20, 0)), group="a")
    assert not it.see(look(60, partition(0, 9, 20, 50)), group="b")


def test_storms() -> None:
    it = Group()
    assert not it.see(look(50, rebalanced_s=(10, 20)))
    assert it.see(look(60, rebalanced_s=(55, 20, 10))) == [("storm", "began", None, 10, 60)]
    assert not it.see(look(90, rebalanced_s=(80, 55, 20, 10)))
    assert not it.see(look(150, rebalanced_s=(80, 55)))
    assert it.see(look(170, rebalanced_s=(80,))) == [("storm", "recovered", None, 10, 170)]
    assert it.tester.peekValueState("group", "g") is None, "nothing to remember"


def test_nothing_is_remembered_of_what_is_gone() -> None:
    it = Group()
    it.see(look(0, partition(0, 5, 10, 0, expires_s=3000), partition(1, 5, 5, 0)))
    it.see(look(60, partition(0, 5, 20, 0, expires_s=3000), partition(1, 5, 5, 0)))
    assert it.remembered() == {("t", 0), ("t", 1)}
    assert it.see(look(70, partition(1, 5, 5, 0))) == [("stuck", "gone", 0, 0, 70), ("expiring", "gone", 0, -600, 70)]
    assert it.remembered() == {("t", 1)}
    assert not it.see(look(80))
    assert it.remembered() == set()


def test_what_lives_long_is_written_anew_before_its_time_is_over() -> None:
    assert 2 * REFRESH_MS < events.STATE_TTL_MS
    it = Group()
    it.see(look(0, partition(0, 5, 10, 0)), look(60, partition(0, 5, 20, 0)))
    day_s = REFRESH_MS // 1000
    it.see(look(day_s + 60, partition(0, 5, 20, 0)))
    [track] = it.tester.peekMapState("partitions", "g").values()
    assert track[-1] == (day_s + 60) * 1000


def test_a_row_has_the_columns_of_the_table() -> None:
    tester = TwsTester(events.Judge(RULES), timeMode="ProcessingTime")
    tester.test("g", [Row(**look(0, partition(0, 5, 10, 0)))])
    [row] = tester.test("g", [Row(**look(60, partition(0, 5, 20, 0)))])
    assert list(row.asDict()) == [column.name for column in COLUMNS]
    assert (row["group_id"], row["lag"], row["end_offset"]) == ("g", 15, 20)


def write_look(out: Path, number: int, at_s: int, groups: dict[str, list[dict[str, Any]]]) -> None:
    rows = [{"group_id": group, **look(at_s, *partitions)} for group, partitions in groups.items()]
    path = out / "looks" / f"{number:09d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, schema=LOOKS), path)


def test_a_look_has_nothing_unread_where_no_member_subscribes(spark: Any, tmp_path: Path) -> None:
    """A group that reads another topic now has members and a lag, and is not stuck; the same without members is."""
    places = {"moved on": ("not subscribed", False), "gone": ("not subscribed", True), "reads": ("in use", False)}
    offsets = "committed_offset bigint, committed_ms bigint, end_offset bigint, lag bigint"
    times = (
        "moved_ms bigint, stood_since_ms bigint, stood_until_ms bigint, time_lag_ms bigint, time_lag_error_ms bigint"
    )
    where = "group_id string, topic string, partition int"
    tables = {
        "lag": spark.createDataFrame(
            [(group, "t", 0, 5, 1_000, 20, 15, 1_000, None, None, 99_000, 0) for group in places],
            f"{where}, {offsets}, {times}",
        ),
        "expiry": spark.createDataFrame(
            [(group, "t", 0, 1_000_000, *told) for group, told in places.items()],
            f"{where}, expires_ms bigint, counts_from string, abandoned boolean",
        ),
        "rebalances": spark.createDataFrame([], "group_id string, ended_ms bigint"),
    }
    events.write_look(spark, tmp_path, 0, 100_000, RULES, tables.__getitem__)
    rows = parquet.read_table(tmp_path / "looks" / "000000000.parquet").to_pylist()
    found = {row["group_id"]: Seen(**row["partitions"][0]) for row in rows}
    assert {group: seen.lag for group, seen in found.items()} == {"moved on": 0, "gone": 15, "reads": 15}
    assert found["moved on"].expires_ms == 1_000_000


def judge(spark: Any, out: Path, said: list[Any]) -> None:
    query = events.start(spark, out, RULES, said.append, availableNow=True)
    assert query.awaitTermination(600)
    assert query.exception() is None


@pytest.mark.timeout(1200)
def test_a_query_that_is_started_again_knows_what_it_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, said = tmp_path / "out", []
    write_look(out, 0, 0, {"a": [partition(0, 5, 10, 0)], "b": [partition(0, 7, 10, 0)]})
    write_look(out, 1, 60, {"a": [partition(0, 5, 20, 0)], "b": [partition(0, 8, 20, 50)]})
    judge(spark, out, said)
    assert told(said) == [("stuck", "began", 0, 0, 60)]
    write_look(out, 2, 90, {"a": [partition(0, 5, 30, 0)], "b": [partition(0, 9, 30, 80)]})
    write_look(out, 3, 120, {"a": [partition(0, 6, 30, 110)], "b": []})

    # Cut off between the file and the checkpoint: the batch comes again, and what it told is not told twice.
    def cut(*_: object) -> None:
        raise RuntimeError("cut off")

    query = events.start(spark, out, RULES, cut, availableNow=True)
    with pytest.raises(Exception, match="cut off"):
        query.awaitTermination(600)
    again: list[Any] = []
    judge(spark, out, again)
    assert not again
    assert told(events.read_events(out)) == [("stuck", "began", 0, 0, 60), ("stuck", "recovered", 0, 0, 120)]
