"""Causes that are inferred from the log that the daemon wrote while real consumers came, left and were killed, beside
the ledger that it wrote meanwhile.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from coordinatord.monitoring.analysis.generations import Commits, generation_of
from coordinatord.monitoring.offsets_log.source.ledger_topic import ledger_of
from coordinatord.monitoring.offsets_log.source.options import read_options
from kafka_wire.records.rebalance_ledger import Why
from tests.clients.members import ConsumerProcess
from tests.daemon import Daemon, running
from tests.monitoring.offsets_log.source.test_kafka_segments import rows_in
from tests.monitoring.pipeline.scoring import Known, score
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]  # sessions have to end

PARTITIONS = 6
SESSIONS_MS = {"short": 12_000, "long": 16_000}
PLOT = ("start", "start", "kill", "start", "terminate", "start", "kill", "terminate", "start", "terminate")
"""What happens to each group, one thing after the other, when it has rebalanced and worked for a while."""
WORK_S = 5


class Group:
    """Consumer processes; the oldest one is the next to go."""

    def __init__(self, daemon: Daemon, name: str) -> None:
        self.daemon, self.name = daemon, name
        self.members: list[ConsumerProcess] = []

    def do(self, what: str) -> None:
        if what == "start":
            ms = SESSIONS_MS[self.name]
            settings = {"session_timeout_ms": ms, "heartbeat_interval_ms": 1_000, "client_id": f"c{len(self.members)}"}
            self.members.append(ConsumerProcess(self.daemon.bootstrap, self.name, "orders", **settings))
        else:
            member = self.members.pop(0)
            member.kill() if what == "kill" else member.terminate()

    def ended(self) -> int:
        """How many rebalances have come to an end so far."""
        logged = self.daemon.events("rebalance", group=self.name)
        return sum(each["outcome"] in ("completed", "empty") for each in logged)


@pytest.fixture
def producing() -> Callable[[str], threading.Event]:
    """Something to read in each partition, a few times a second, until the event is set."""

    def begin(bootstrap: str) -> threading.Event:
        stop = threading.Event()

        def run() -> None:
            producer = KafkaProducer(bootstrap_servers=bootstrap)
            while not stop.wait(0.3):
                for number in range(PARTITIONS):
                    producer.send("orders", b"x", partition=number)
            producer.close()

        threading.Thread(target=run, daemon=True).start()
        return stop

    return begin


def test_real_consumers(
    tmp_path: Path, producing: Callable[[str], threading.Event], capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        admin.create_topics([NewTopic("orders", PARTITIONS, 1)])
        admin.close()
        stop = producing(daemon.bootstrap)
        groups = [Group(daemon, name) for name in SESSIONS_MS]
        try:
            for what in PLOT:
                before = [group.ended() for group in groups]
                for group in groups:
                    group.do(what)
                for group, count in zip(groups, before, strict=True):
                    rebalanced = partial(lambda group, count: group.ended() > count, group, count)
                    wait_until(rebalanced, f"{group.name} to rebalance after {what}", timeout_s=120)
                time.sleep(WORK_S)
            for group in groups:
                while group.members:
                    group.do("terminate")
        finally:
            stop.set()
            for group in groups:
                while group.members:
                    group.do("kill")
        ended = daemon.stop()
        assert ended == 0
        found = score(known(daemon.data_dir))
    with capsys.disabled():
        print("\nreal consumers:", *found.lines(), sep="\n")
    assert len(found.stated) >= 2 * len(PLOT)
    assert (
        found.below({Why.NEW_MEMBER: (0.75, 0.75), Why.MEMBER_LEFT: (0.7, 0.7), Why.SESSION_EXPIRED: (0.7, 0.7)}) == []
    )


def known(data_dir: Path) -> list[Known]:
    """What the daemon's files say of each group."""
    rows = rows_in(data_dir)
    told = [json.loads(text) for *_, text in ledger_of(read_options({"paths": json.dumps([str(data_dir)])}), {})]
    found = []
    for name in SESSIONS_MS:
        log = [row for row in rows["group_generations"] if row["group_id"] == name]
        log.sort(key=lambda row: row["log_offset"])
        times: dict[tuple[str, int], list[int]] = {}
        for row in rows["offset_commits"]:
            if row["group_id"] == name:
                times.setdefault((row["topic"], row["partition"]), []).append(row["commit_timestamp_ms"])
        commits = Commits({place: sorted(each) for place, each in times.items()})
        ledger = [each for each in told if each["group"] == name]
        found.append(Known(name, [generation_of(row) for row in log], commits, ledger))
    return found
