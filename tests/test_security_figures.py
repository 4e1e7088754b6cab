"""SECURITY.md has the figures of the code."""

from __future__ import annotations

import re

import pytest

from coordinatord.base.budget import SLICE_S
from coordinatord.broker.topics.fetch_sessions import MAX_SESSION_BYTES
from coordinatord.broker.topics.produce import MAX_PARTITIONS
from coordinatord.coordination.runtime.actors import MAX_ID_BYTES
from coordinatord.server.access.guard import MAX_IDENTITY_BYTES
from coordinatord.server.access.quotas import MAX_METER_BYTES
from coordinatord.transport.net import limits
from coordinatord.transport.net.connection import MAX_WAITING_BYTES, TURN_BYTES, TURN_REQUESTS
from coordinatord.transport.net.cooperative_tasks import MAX_RUNNING
from coordinatord.transport.net.response_queue import MAX_HELD, MAX_HELD_BYTES, MAX_LOGGED_BYTES, MAX_UNSENT_BYTES
from coordinatord.transport.security.authorizer import MAX_DECIDED_BYTES
from tests.daemon import REPOSITORY

KIB, MIB = 1 << 10, 1 << 20
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|", re.MULTILINE)

FIGURES = [
    ("a request", f"{limits.MAX_GROUP_BYTES // MIB} MiB with subscriptions or assignments"),
    ("a request", f"else {limits.MAX_LIST_BYTES // MIB} MiB"),
    ("names or partitions in a request", f"{limits.MAX_ELEMENTS:,} that"),
    ("names or partitions in a request", f"{MAX_PARTITIONS:,} partitions of a Produce request"),
    ("requests that wait behind one that waits", f"{MAX_WAITING_BYTES // KIB} KiB"),
    ("requests whose records wait for the log", f"{MAX_LOGGED_BYTES // MIB} MiB and one request"),
    ("answers that wait for the log", f"{MAX_HELD} answers, {MAX_HELD_BYTES // KIB} KiB and one answer"),
    ("answers that the peer does not read", f"{MAX_UNSENT_BYTES // KIB} KiB and one answer"),
    ("one answer, of every API", f"{limits.MAX_ANSWER_BYTES // MIB} MiB, and"),
    (
        "requests served in one turn of the event loop",
        f"{TURN_REQUESTS}, {TURN_BYTES // KIB} KiB, {round(SLICE_S * 1000)} ms",
    ),
    ("requests that are answered in slices", f"{MAX_RUNNING} at a time"),
    (
        "requests that have not arrived in full",
        f"{limits.MAX_INCOMPLETE_BYTES // MIB} MiB of those of more than {limits.COUNTED_BYTES // KIB} KiB",
    ),
    (
        "answers that are being made in parts, or that peers do not read",
        f"{limits.MAX_UNREAD_BYTES // MIB} MiB",
    ),
    ("decisions of the authorizer that are remembered", f"{MAX_DECIDED_BYTES // MIB} MiB"),
    ("principals and addresses that ACLs were asked about", f"{MAX_IDENTITY_BYTES // MIB} MiB"),
    (
        "meters of quotas",
        f"{MAX_METER_BYTES // MIB} MiB of rates, {MAX_METER_BYTES // MIB} MiB of token buckets",
    ),
    ("fetch sessions", f"and {MAX_SESSION_BYTES // MIB} MiB"),
    ("ids of groups; transactional ids", f"{MAX_ID_BYTES // MIB} MiB each"),
]


@pytest.mark.parametrize(("what", "figure"), FIGURES)
def test_a_figure(what: str, figure: str) -> None:
    rows = dict(ROW.findall((REPOSITORY / "SECURITY.md").read_text()))
    assert figure in rows[what]


def test_the_sum_of_all_connections_is_within_what_an_attack_may_take() -> None:
    """256 MiB (tests/hostile/test_neighbours.py): of one kind at a time."""
    sums = (limits.MAX_INCOMPLETE_BYTES, limits.MAX_UNREAD_BYTES, MAX_SESSION_BYTES, MAX_DECIDED_BYTES,
            2 * MAX_METER_BYTES, MAX_IDENTITY_BYTES, MAX_ID_BYTES)  # fmt: skip
    assert limits.MAX_ANSWER_BYTES <= limits.MAX_UNREAD_BYTES
    assert max(sums) <= 256 * MIB
