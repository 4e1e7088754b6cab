"""Views as a busy cluster would give: some groups in trouble, one whose name is made to hurt, and more if wanted."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from coordinatord.monitoring.analysis import share_groups
from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.current_lag import Partition, standing
from coordinatord.monitoring.analysis.ends import Ends
from coordinatord.monitoring.analysis.groups import group_now
from coordinatord.monitoring.analysis.members import CRASH_LOOP, STORM, Event, Life
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.rebalances import Rebalance
from coordinatord.monitoring.analysis.share_groups import Look
from coordinatord.monitoring.analysis.share_state import ARCHIVED, AVAILABLE, Batch, ShareState, deliveries
from coordinatord.monitoring.analysis.status import Members, Rules
from coordinatord.monitoring.dashboard.view import Deadline, Ending, GroupView, View

NOW_MS = 1_795_400_000_000
EVIL = "<img src=x onerror=\"document.title='broken'\"> '\"&amp; ${x}"
MINUTE = 60_000


def place(group: str, topic: str, number: int, lag: int, *, stuck: bool = False) -> Any:
    """A row: it commits every 5 s; the same offset if it is stuck, and all records have been there for half an hour."""
    rules = Rules()
    trail = Trail(rules.window_ms)
    for step in range(240):
        trail.add(Commit(100 if stuck else 100 + step, NOW_MS - (240 - step) * 5_000, None))
    assert trail.last is not None
    end = trail.last.offset + lag
    known = [Point(end, NOW_MS - 30 * MINUTE)] if stuck else []
    partition = Partition.of(topic, number, Ends(0, end, NOW_MS), known)
    return standing(group, trail, partition, NOW_MS, members=Members(True), rules=rules)


def rebalance(number: int, ended_ms: int, trigger: str, cause: str, **given: Any) -> Rebalance:
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(Rebalance))
    values |= {
        "generation": number, "generation_before": number - 1, "outcome": "completed", "began_ms": ended_ms - 3_000,
        "ended_ms": ended_ms, "members": 3, "added": 1, "removed": 0, "partitions_moved": 2, "trigger": trigger,
        "trigger_client_id": "worker-3", "cause": cause, "how": "inferred", "confidence": 0.95, "initial": False,
    }  # fmt: skip
    return Rebalance(**(values | given))


def life(number: int, since: int, until: int | None, end: str | None, client: str = "worker") -> Life:
    """Times in minutes before now."""
    until_ms = None if until is None else NOW_MS - until * MINUTE
    return Life(
        f"{client}-{number}-0b4c", None, f"{client}-{number}", "/10.0.0.7", NOW_MS - since * MINUTE, until_ms, end, 3,
        2, NOW_MS - 4_000, 45_000,
    )  # fmt: skip


def group(name: str, rows: Any, **given: Any) -> GroupView:
    values: dict[str, Any] = {"group_type": "classic", "members": 3, "commits": 12, "causes": {}}
    return GroupView(group_id=name, rows=rows, now=group_now(rows) if rows else None, **(values | given))


def pickers() -> GroupView:
    """A share group with two share partitions, in one of them a suspected poison record."""
    poisoned = deliveries(ShareState(1, 1, 40, 2, (Batch(41, 42, ARCHIVED, 1), Batch(43, 43, AVAILABLE, 3))), 5)
    fine = deliveries(ShareState(1, 1, 7, 0, ()), 5)
    looked = [Look(NOW_MS, 40, 50, 8, 1, poisoned)]
    rows = [share_groups.standing("pickers", "orders", 1, looked, NOW_MS, rules=Rules())]
    return group(
        "pickers", rows, group_type="share", commits=None, redelivered=5, archived=2,
        deliveries={("orders", 0): fine, ("orders", 1): poisoned},
    )  # fmt: skip


def view(more: int = 0) -> View:
    """Five groups that have a story, and `more` that are well."""
    loop = Event(
        CRASH_LOOP,
        NOW_MS - 9 * MINUTE,
        NOW_MS - MINUTE,
        "worker-3",
        "/10.0.0.7",
        5,
        "worker-3 on 10.0.0.7 came 5 times, for 41 s each",
    )
    storm = Event(STORM, NOW_MS - 9 * MINUTE, NOW_MS - MINUTE, None, None, 10, "10 rebalances in 480 s")
    rows = [
        rebalance(40 + n, NOW_MS - (10 - n) * MINUTE, *told)
        for n, told in enumerate(
            [
                ("new member", "worker-3 on 10.0.0.7 joined, none left"),
                (
                    "session expired",
                    "worker-3 on 10.0.0.7 had committed last 47.2 s before the others had rejoined, longer than "
                    "its session lasts",
                ),
            ]
            * 5
        )
    ]
    lives = [
        life(1, 50, None, None),
        life(2, 50, None, None),
        *(life(3, 10 - 2 * n, 9 - 2 * n, "expired") for n in range(5)),
    ]
    groups = [
        group(
            "looping",
            [place("looping", "orders", n, 0) for n in range(3)],
            trouble=(loop, storm),
            rebalances=rows,
            lives=lives,
            causes={"new member": 5, "session expired": 5},
        ),
        group(
            "stuck-payments",
            [place("stuck-payments", "payments", 7, 7_100, stuck=True), place("stuck-payments", "payments", 8, 0)],
            lives=[life(1, 90, None, None, "pay")],
            rebalances=[rebalance(2, NOW_MS - 40 * MINUTE, "new member", "the group was empty")],
            deadlines=[Deadline("session expires", "pay-1", NOW_MS + 31_000, 45_000)],
        ),
        group(
            EVIL,
            [place(EVIL, "t", 0, 3)],
            lives=[replace(life(1, 5, None, None), client_id=EVIL, host=EVIL)],
            rebalances=[rebalance(2, NOW_MS - MINUTE, EVIL, EVIL, trigger_client_id=EVIL, client_reason=EVIL)],
            waiting={"began_ms": NOW_MS - 9_000, "waits_for": [EVIL]},
        ),
        group("migrating", [place("migrating", "orders", 0, 40)], group_type="consumer"),
        group("no-offsets", [], members=2),
    ]
    row = place("", "orders", 0, 0)
    for number in range(more):
        name = f"service-{number:05d}"
        groups.append(group(name, [row._replace(group_id=name)]))
    return View(NOW_MS, {each.group_id: each for each in groups}, [Ending("orders", 0, 0, 339)])
