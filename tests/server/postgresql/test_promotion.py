"""Nothing that was acknowledged is lost when the primary dies and its synchronous standby is promoted.

The clients and the checks are those of test_loss.py; `COORDINATORD_LOSS_SEED` repeats a run's faults.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from pathlib import Path

import pytest

from tests.server.postgresql.loss.cluster import errors
from tests.server.postgresql.loss.replicated import Pair, ReplicatedCluster, paired
from tests.server.postgresql.server import missing
from tests.server.postgresql.test_loss import Play

pytestmark = [pytest.mark.full, pytest.mark.postgresql]

PROMOTIONS = int(os.environ.get("COORDINATORD_PROMOTIONS") or 4)
"""Before each of them but the first, another fault."""


async def played(directory: Path, pair: Pair, seed: int, leaders: int) -> str:
    chance = random.Random(seed)
    cluster = ReplicatedCluster(directory, pair, leaders)
    play = Play(cluster)
    try:
        await cluster.start()
        await play.begin()
        await play.until_all_go_on()
        for number in range(PROMOTIONS):
            if number:
                print(f"before promotion {number + 1}: {await cluster.fault(chance)}")
                await play.until_all_go_on()
            cluster.faults["standby promoted"] += 1
            await cluster.promote(0, chance.random())
            await play.until_all_go_on()
        problems = await play.end()
        assert not problems, "\n".join(problems[:20])
        assert not errors(cluster.nodes)
        assert pair.primary.ask("postgres", "SELECT pg_is_in_recovery()") == [(False,)]
        assert pair.standby.ask("postgres", "SELECT pg_is_in_recovery()") == [(True,)]
        assert cluster.promotions >= PROMOTIONS
        return play.summary()
    finally:
        play.close()
        await cluster.close()


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("leaders", [1, 2])
def test_nothing_acknowledged_is_lost_with_a_primary(leaders: int, tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    seed = int(os.environ.get("COORDINATORD_LOSS_SEED") or secrets.randbelow(1 << 32))
    print(f"\nCOORDINATORD_LOSS_SEED={seed}")
    with paired() as pair:
        print(asyncio.run(played(tmp_path, pair, seed, leaders)))


async def promoted_behind(directory: Path, pair: Pair) -> list[str]:
    """What is wrong after the promotion of a standby that had been cut off while commits were acknowledged."""
    cluster = ReplicatedCluster(directory, pair)
    play = Play(cluster, is_real=False)
    try:
        await cluster.start()
        await play.begin()
        await play.until_all_go_on()
        await asyncio.to_thread(pair.cut_off)
        await play.until_all_go_on()
        await play.stop_writers()  # their next commits would hide that the last ones were lost
        await cluster.promote(0, 0.0)
        leader = await asyncio.to_thread(cluster.leader)
        await cluster.kinds()["SIGKILL"](leader, 0.0)  # it has them in memory; the next leader reads the database
        return await play.end()
    finally:
        play.close()
        await cluster.close()


@pytest.mark.timeout(2_400)
def test_an_asynchronous_standby_that_is_promoted_is_noticed(tmp_path: Path) -> None:
    """It loses what had not reached it: the checker tells, and a node warns of it when it starts."""
    if why := missing():
        pytest.skip(why)
    with paired(is_synchronous=False) as pair:
        found = asyncio.run(promoted_behind(tmp_path, pair))
    # Which of the two it is depends on what the standby had got when it was cut off: commits, or only reads of them.
    assert any("had been acknowledged" in each or "had been read" in each for each in found), found
