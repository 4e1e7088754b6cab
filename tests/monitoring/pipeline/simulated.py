"""Histories that nobody made for the pipeline: `coordinatord simulate`'s engine, the real coordinator and the real
member, with its ledger as the truth.

That engine leaves out polls that would change nothing, and works out what they would have committed; here those commits
are written down at the moments when they would have been made, as real members make them.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from coordinatord.coordination.group.result import Result
from coordinatord.coordination.service.ledger import Ledger
from coordinatord.monitoring.analysis.generations import Commits, Generation
from coordinatord.testing.simulation import world as simulation
from coordinatord.testing.simulation.node import NODE_ID
from coordinatord.testing.simulation.process import Process
from coordinatord.testing.simulation.scenario import build
from kafka_wire.records.offsets import OffsetCommitKey
from tests.monitoring.pipeline.histories import generations_of

MINUTES = 90

SCENARIOS: dict[str, dict[str, object]] = {
    "crashes, range": {"members": 5, "partitions": 12, "assignor": "range", "crashes": "1/h", "session": "30s"},
    "crashes, cooperative": {"members": 6, "partitions": 18, "assignor": "cooperative-sticky", "crashes": "1/h"},
    "pauses, round robin": {
        "members": 4, "partitions": 8, "assignor": "roundrobin", "pauses": "2/h:40s", "session": "20s",
    },
    "slow batches, sticky": {
        "members": 5, "partitions": 10, "assignor": "sticky", "slow": "1/h:150s", "max-poll": "60s", "crashes": "0.3/h",
    },
    "deployments, cooperative": {
        "members": 8, "partitions": 24, "assignor": "cooperative-sticky", "deploy": "rolling:90s", "crashes": "0.3/h",
        "restart": "25s",
    },
    "deployments, range": {
        "members": 6, "partitions": 12, "assignor": "range", "deploy": "rolling:60s", "commit": "15s",
        "pauses": "1/h:70s",
    },
    "static, range": {
        "members": 5, "partitions": 10, "assignor": "range", "static": "true", "crashes": "1/h", "restart": "100s",
        "session": "45s",
    },
    "everything, rare commits": {
        "members": 6, "partitions": 12, "assignor": "range+cooperative-sticky", "crashes": "0.7/h",
        "pauses": "0.7/h:90s", "commit": "40s", "deploy": "all",
    },
}  # fmt: skip


class Simulated:
    """What a pipeline gets of a scenario that has come true, and the truth."""

    def __init__(self, name: str, seed: int) -> None:
        values = SCENARIOS[name] | {"seed": str(seed), "duration": f"{MINUTES}m"}
        self.log: list[tuple[Any, Any]] = []
        self.times: list[int] = []
        self.records: list[dict[str, Any]] = []
        self.commit_times: dict[tuple[str, int], list[int]] = {}
        self.world = simulation.World(build(values))
        node = self.world.node
        follow = node.ledger._tell
        node.ledger = Ledger(NODE_ID, lambda _group, make: self.records.append(json.loads(make())), follow)
        apply = node.apply

        def recorded(result: Result) -> None:
            records = copy.deepcopy(result.all_records(node.group.group_id))
            self.log += records
            self.times += [node.engine.now_ms] * len(records)
            apply(result)

        node.apply = recorded  # type: ignore[method-assign]
        _Recorded.history = self
        before, simulation.Process = simulation.Process, _Recorded  # type: ignore[misc]
        try:
            self.world.run()
        finally:
            simulation.Process = before  # type: ignore[misc]

    def commits(self) -> Commits:
        times = {place: list(each) for place, each in self.commit_times.items()}
        for (key, _value), at_ms in zip(self.log, self.times, strict=True):
            if isinstance(key, OffsetCommitKey):
                times.setdefault((key.topic, key.partition), []).append(at_ms)
        return Commits({place: sorted(each) for place, each in times.items()})

    def generations(self) -> list[Generation | None]:
        return generations_of(self.log, self.times)


class _Recorded(Process):
    """A process whose commits by interval are written down, those of polls that are not made, too."""

    history: Simulated

    def _settle_commits(self) -> None:
        base, work = self._commit_base, self._work()
        super()._settle_commits()
        for at in range(base + self._commit_every, self._commit_base + 1, self._commit_every):
            for place in self._committed:
                self.history.commit_times.setdefault(place, []).append(self.engine.now_ms - (work - at))
