"""What the pipeline says of generated histories, without Spark, beside what is known of them: every column."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.generations import Commits, generation_of
from coordinatord.monitoring.analysis.members import Event, events, lives
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.rebalances import Rebalance, rebalances
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import GROUP_GENERATIONS
from coordinatord.monitoring.offsets_log.lag.fold import KINDS
from coordinatord.monitoring.offsets_log.lag.lag_scan import Looks
from coordinatord.monitoring.offsets_log.lag.share_scan import share_groups
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.ranges import plan, read
from coordinatord.monitoring.offsets_log.source.segments import find_logs
from coordinatord.monitoring.offsets_log.source.share_state_topic import ShareStates
from tests.monitoring.offsets_log.lag.test_lag_history import history
from tests.monitoring.pipeline.truth.compare import Row, differences
from tests.monitoring.pipeline.truth.members import MembersModel
from tests.monitoring.pipeline.truth.model import Model
from tests.monitoring.pipeline.truth.shares import ShareModel, ShareWorld
from tests.monitoring.pipeline.truth.world import World

SEEDS = (1, 2, 3)
SHARE_SEEDS = (1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    """A history, and the directory of its log."""
    found = World(request.param)
    directory = tmp_path_factory.mktemp(f"seed-{request.param}")
    found.write(directory)
    return found, directory


@pytest.mark.parametrize("last", [False, True])
def test_who_is_behind(last: bool, world: tuple[World, Path]) -> None:
    model, directory = MembersModel(world[0]), str(world[1])
    options = read_options({"paths": json.dumps([directory]), "kinds": ",".join(KINDS)})
    look = Looks(options, directory, {}).look(model.now_ms, last=last)
    rows = [row._asdict() for row in look.rows]
    wrong = differences("lag", Now._fields, rows, model.standing(), ("group_id", "topic", "partition"))
    groups = {row["group_id"]: [each for each in rows if each["group_id"] == row["group_id"]] for row in rows}
    expected = {(name,): model.with_trouble(model.group_status(each)) for name, each in groups.items()}
    found = [group._asdict() for group in look.groups]
    wrong += differences("group_status", found[0], found, expected, ("group_id",))
    assert not wrong, "\n".join(wrong)


def test_looks_at_a_log_that_grows(world: tuple[World, Path], tmp_path: Path) -> None:
    """Step by step, some of them within a transaction or a batch, the rows are those of one look at the whole."""
    directory = tmp_path / "log"
    shutil.copytree(world[1], directory)
    options = read_options({"paths": json.dumps([str(directory)]), "kinds": ",".join(KINDS)})
    segments = {path: path.read_bytes() for path in directory.glob("__consumer_offsets-*/*.log")}
    looks, now_ms = Looks(options, str(directory), {}), world[0].now_ms
    for step in range(1, 8):
        for path, data in segments.items():
            path.write_bytes(data[: len(data) * step // 7])
        look = looks.look(now_ms)
    whole = Looks(options, str(directory), {}).look(now_ms)
    assert look.records == whole.records
    assert {row[:3]: row for row in look.rows} == {row[:3]: row for row in whole.rows}


def test_how_far_each_group_was_behind(world: tuple[World, Path]) -> None:
    model, rows = Model(world[0]), []
    for group, (topic, number) in model.places():
        commits = [Commit(each.offset, each.ms, None) for each in model.commits(group, (topic, number))]
        points = [Point(end, ms) for ms, end in model.points(model.world.topics[topic, number])]
        for at_ms, offset, least, most in history(commits, points, 60_000):
            rows.append((group.name, topic, number, at_ms, offset, most, least))
    names = ("group_id", "topic", "partition", "at_ms", "committed_offset", "lag", "least_lag")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    wrong = differences("lag_history", names, found, model.lag_history(), names[:4])
    assert not wrong, "\n".join(wrong)


def test_members_and_rebalances(world: tuple[World, Path]) -> None:
    model, directory = MembersModel(world[0]), world[1]
    of_group: dict[str, list[Row]] = {}
    for log in find_logs([str(directory)], "__consumer_offsets", None):
        for part in plan(log, 1 << 30):
            for _, batch in read(part, Wanted(kinds=frozenset({GROUP_GENERATIONS}))):
                for row in batch.to_pylist():
                    of_group.setdefault(row["group_id"], []).append(row)
    told: dict[str, list[Row]] = {"members": [], "rebalances": [], "member_events": []}
    for group in model.world.all_groups:
        log_of_group = [generation_of(row) for row in of_group.get(group.name, [])]
        commits = Commits({place: model.times(group, place) for place in group.places})
        found = lives(log_of_group, commits)
        told["members"] += [values(MEMBERS, group.name, each) for each in found]
        told["rebalances"] += [values(REBALANCES, group.name, each) for each in rebalances(log_of_group, commits)]
        events_of = events(found, log_of_group, commits)
        told["member_events"] += [values(EVENTS, group.name, each) for each in events_of]
    wrong = differences("members", MEMBERS, told["members"], model.members(), MEMBERS[:2])
    wrong += differences("rebalances", REBALANCES, told["rebalances"], model.rebalances(), ("group_id", "generation"))
    keys = ("group_id", "kind", "began_ms")
    wrong += differences("member_events", EVENTS, told["member_events"], model.member_events(), keys)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", SHARE_SEEDS)
def test_share_partitions(seed: int, tmp_path: Path) -> None:
    shares = ShareWorld(World(seed, groups=0), seed)
    shares.world.write(tmp_path)
    shares.write(tmp_path)
    options, now_ms = read_options({"paths": json.dumps([str(tmp_path)])}), shares.world.now_ms
    read = ShareStates(options, str).read()
    found = [each.columns for each in share_groups(options, str(tmp_path), {}, read, now_ms, Rules())]
    model = ShareModel(shares).share_partitions()
    columns = tuple(next(iter(model.values())))
    rows = [{name: row[name] for name in columns} for row in found]
    wrong = differences("share_partitions", columns, rows, model, columns[:3])
    assert not wrong, "\n".join(wrong)


def values(columns: tuple[str, ...], group: str, each: Any) -> Row:
    return {"group_id": group} | {name: getattr(each, name) for name in columns[1:]}


MEMBERS = (
    "group_id", "member_id", "instance", "client_id", "host", "since_ms", "until_ms", "lived_ms", "end", "generations",
    "partitions", "last_commit_ms", "session_timeout_ms",
)  # fmt: skip
REBALANCES = ("group_id", *(field.name for field in fields(Rebalance)))
EVENTS = ("group_id", *(field.name for field in fields(Event)))
