"""The harness itself, in a second or two: nothing here depends on how fast anything is."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest
from rich.console import Console

from bench import groups, report, rows, runner
from bench.generator import Flow, WrongAnswer
from bench.registry import OURS, OURS_ALWAYS, ROWS, Arena, Column, Row, Sample, at_most
from kafka_wire.api.heartbeat import HeartbeatRequest

ROUND_S = 0.05


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("bench"))
    mine = os.sched_getaffinity(0)
    try:
        yield made
    finally:
        made.close()
    assert os.sched_getaffinity(0) == mine, "only the servers are pinned"


def run_of(*measured: runner.Json) -> runner.Json:
    return {**runner.heading(1, ROUND_S), "rows": list(measured)}


def printed(run: runner.Json) -> str:
    console = Console(file=io.StringIO(), width=100)
    report.print_table(run, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", ["heartbeat", "offset-fetch"])
def test_a_row_is_measured(arena: Arena, name: str) -> None:
    assert rows.__all__  # imported for what it adds to ROWS
    row = ROWS[name]
    columns = [column for column in row.columns if column.kind in ("ours", "limit")]
    measured = runner.run_row(arena, row, columns, 1, ROUND_S, lambda text: None)
    assert measured["wrong"] == []
    assert set(measured["columns"]) == {column.key for column in columns}
    ours = measured["columns"]["ours"]
    assert ours["value"] > 0
    assert 0 < ours["latency_ms"]["p50"] <= ours["latency_ms"]["p99"] <= ours["latency_ms"]["p99.9"]
    # Nobody has asked for Kafka: the targets that compare with it are not there.
    assert {target["of"] for target in measured["targets"]} <= {"limit"}
    assert row.title in printed(run_of(measured))


def test_wrong_answers_have_no_figure(arena: Arena) -> None:
    """An answer is an error at once, or not what the same request was answered before."""
    server = arena.server(OURS_ALWAYS)
    line = server.line()
    with pytest.raises(WrongAnswer, match="UNKNOWN_MEMBER_ID"):
        Flow(line, [HeartbeatRequest("group-000000", 1, "a stranger")], groups.check_heartbeat)
    (member,) = groups.one_member_groups([line], ["wrong-answers"])
    flow = Flow(line, [HeartbeatRequest(member.group, member.generation, member.member_id)], groups.check_heartbeat)
    flow.answers = bytes(len(flow.answers))
    flow.send(1, 0.0)
    with pytest.raises(WrongAnswer, match="differs"):
        flow.receive(0.0, [])
    line.close()

    def measure(arena: Arena, column: Column, seconds: float) -> Sample:
        raise WrongAnswer("it did something else")

    row = Row("lies", "lies", "µs", [OURS], [at_most(1)], measure, 1, True, False)
    measured = runner.run_row(arena, row, [OURS], 1, ROUND_S, lambda text: None)
    assert measured["columns"] == {}
    assert measured["targets"][0]["met"] is None  # neither met nor missed
    assert "NOT MEASURED: lies, coordinatord: it did something else" in printed(run_of(measured))
