"""Groups of both protocols after a restart: after each step of a random program, the log gives back what is in memory.

The programs are those of consumer_programs.py: members of both protocols, conversion in both directions, commits,
transactions, deletion of offsets, groups and topics. The fast load and a replay record by record are both compared with
the groups that are served.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.broker.log import PartitionLog
from coordinatord.broker.log import replay as replay_log
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.group.classic.step import restore
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.service.partition_load import PartitionLoad
from coordinatord.server.daemon.daemon import Daemon
from tests.coordination.group.consumer_world import durable
from tests.reference.consumer_player import ConsumerPlayer
from tests.reference.consumer_programs import BOTH
from tests.reference.in_process import HOST, run, running_in_process
from tests.reference.programs import NO_EXPIRY, NO_LEDGER, Stories, ready_topics, recordings, run_name
from tests.reference.random_steps import Step
from tests.test_partition_load import Plain, coordinator

pytestmark = [pytest.mark.interpreted, pytest.mark.slow, pytest.mark.timeout(900)]

Durable = dict[str, tuple[Any, ...]]


def durable_groups(groups: Iterable[Group]) -> Durable:
    found: Durable = {}
    for group in groups:
        if group.exists:
            state, pending = durable(group), group.pending
            found[group.group_id] = (*state, None if pending is None else (pending.by_producer, pending.writers))
    return found


class Compared(ConsumerPlayer):
    """Plays a program, and compares memory with the log after each step."""

    def begin(self, daemon: Daemon, log: PartitionLog) -> None:
        self.daemon, self.log = daemon, log
        self.first_offset = log.end_offset
        self.others = set(daemon.coordinator.actors)
        self.compared = 0

    async def _play(self, step: Step) -> None:
        await super()._play(step)
        self.compare(step)

    async def _clean_up(self) -> None:
        await super()._clean_up()
        self.compare("the clean-up")

    def compare(self, after: object) -> None:
        batches = [each for each in replay_log(self.log) if each.header.base_offset >= self.first_offset]
        served = self.daemon.coordinator.actors.values()
        live = durable_groups(each.group for each in served if each.group.group_id not in self.others)
        assert self.loaded(batches) == live, f"program {self.program.seed}, fast load after {after}"
        assert self.replayed(batches) == live, f"program {self.program.seed}, plain replay after {after}"
        self.compared += bool(live)

    def loaded(self, batches: list[ReplayedBatch]) -> Durable:
        load = PartitionLoad(coordinator(), 0)
        for _ in load.run(batches):
            pass
        return durable_groups(each.group for each in load.actors.values())

    def replayed(self, batches: list[ReplayedBatch]) -> Durable:
        groups = list(Plain(batches).groups.values())
        for group in groups:
            if group.exists:
                restore(group, 0)
        return durable_groups(groups)


async def played(stories: Stories, policy: str, directory: Path) -> int:
    """Play all of them, with Kafka's choices, as `on_ours` does; return the number of comparisons of groups."""
    compared = 0
    async with running_in_process(directory, {**BOTH.settings[policy], **NO_EXPIRY, **NO_LEDGER}) as ours:
        with BOTH.choosing(ours, stories.topic_ids) as chosen:
            topic_ids = await ready_topics(ours.connect, BOTH.topics)
            partition = ours.daemon.coordinator.log._appends.find("__consumer_offsets", 0)
            for it, kafka in stories.told:
                player = Compared(it, ours.connect, HOST, ours.port, run_name(it))
                player.begin(ours.daemon, partition.log)
                with chosen(player, kafka.choices):
                    await player.play(topic_ids)
                compared += player.compared
    return compared


@pytest.mark.parametrize("policy", BOTH.settings)
def test_the_log_gives_back_what_is_in_memory(policy: str, tmp_path: Path) -> None:
    stories = recordings(BOTH.quick_recordings)[policy]
    with contextlib.redirect_stdout(io.StringIO()):
        compared = run(played(stories, policy, tmp_path))
    assert compared > 5 * len(stories.told)
