"""The harness itself, in a second or two: nothing here depends on how fast anything is."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from bench import frames, groups, report, rows, runner
from bench.__main__ import END, begin, put_into_readme
from bench.generator import Flow, WrongAnswer, percentiles_ms
from bench.picture import draw
from bench.registry import OURS, OURS_ALWAYS, ROWS, Arena, Column, Row, Sample, at_least, at_most
from bench.rows.steady import check_either
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


def test_answers_of_several_sizes_are_counted(arena: Arena) -> None:
    """As whole answers, wherever a read ends: a commit and fetches of what it has set, in several versions."""
    server = arena.server(OURS_ALWAYS)
    line = server.line()
    (member,) = groups.one_member_groups([line], ["several-sizes"])
    groups.make_topic(server)
    asked = [
        frames.commit(member.group, member.generation, member.member_id, 5),
        *(frames.offset_fetch_in(version, member.group) for version in (1, 5, 8)),
    ]
    flow = Flow(line, asked, check_either)
    assert len({*flow.answer_ends}) == len(asked)
    answers = flow.answers[: flow.answers_bytes]
    here, there = socket.socketpair()
    with here, there:
        flow.sock = here
        flow.send(3, 0.0)
        flow.send(4, 0.0)
        seen: list[int] = []
        read_at = 0
        # the end of the first answer, all but a byte of the second, that and another whole one, then a cycle and more
        for stop in (
            flow.answer_ends[0],
            flow.answer_ends[1] - 1,
            flow.answer_ends[2],
            len(answers) + flow.answer_ends[2],
        ):
            there.sendall((answers * 2)[read_at:stop])
            read_at = stop
            seen.append(flow.receive(1.0, []))
        assert seen == [1, 0, 2, 4]
        assert flow.waiting == 0
        there.sendall(answers[flow.answer_ends[1] : flow.answer_ends[2]])
        with pytest.raises(WrongAnswer, match="differs"):
            flow.receive(1.0, [])
    line.close()


def test_a_missed_target_is_marked(tmp_path: Path) -> None:
    other = Column("kafka", "kafka", "Kafka")

    values = iter([2.0, 8.0, 4.0, 4.0])  # ours, Kafka's, and once more: medians 3 and 6

    def measure(arena: Arena, column: Column, seconds: float) -> Sample:
        also = {"at rest": 2.0} if column is OURS else {}
        return Sample(next(values), [(0.001, 98), (0.002, 2)], also=also)

    targets = [at_most(1 / 4, of="kafka"), at_most(1, of="kafka", what="p99"), at_most(1.2, of="at rest"), at_least(2)]
    row = Row("made-up", "a made-up row", "µs", [OURS, other], targets, measure, 9, True, False)
    measured = runner.run_row(Arena(tmp_path), row, row.columns, 2, ROUND_S, lambda text: None)
    assert [(target["reached"], target["met"]) for target in measured["targets"]] == [
        (0.5, False),
        (1.0, True),
        (1.5, False),
        (3.0, True),
    ]
    run = run_of(measured)
    run["machine"]["build"] = "interpreted"
    lines = printed(run).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("    ")] == [
        "coordinatord:",
        "MISSED",
        "met",
        "MISSED",
        "met",
    ]
    assert lines[-1].startswith(
        "2 of 4 targets met; MISSED: made-up: ≤ 1/4 × kafka: 0.50 (0.25–1.00) · made-up: ≤ 1.2 × at rest: 1.50"
    )
    assert [line.split()[:3] for line in lines if line.startswith("  Kafka")] == [["Kafka", "6.00", "4.00–8.00"]]
    assert "**MISSED** ≤ 1/4 × kafka: 0.50 (0.25–1.00)" in report.markdown(run)
    assert "met ≥ 2 µs: 3.00 (2.00–4.00)" in report.markdown(run)
    readme = tmp_path / "README.md"
    other = f"<!-- compiled run -->\nof C\n{END}\n"
    assert begin(run) == "<!-- interpreted run -->"
    readme.write_text(f"before\n{other}{begin(run)}\nan older run\n{END}\nafter\n")
    put_into_readme(run, readme)
    assert readme.read_text() == f"before\n{other}{begin(run)}\n{report.markdown(run)}{END}\nafter\n"
    picture = tmp_path / "run.png"
    draw(run, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_percentiles_weigh_each_latency_with_its_requests() -> None:
    assert percentiles_ms([(0.003, 10), (0.001, 980), (0.004, 2), (0.002, 8)]) == {
        "p50": 1.0,
        "p99": 3.0,
        "p99.9": 4.0,
    }


def test_all_rows_have_a_column_of_ours_first() -> None:
    assert rows.__all__
    for row in ROWS.values():
        assert row.columns[0].key == "ours", row.name
