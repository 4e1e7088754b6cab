"""No attack holds the event loop: the longest turn beside each of them, in CPU time of the loop's thread (turns.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config.access import STANDARD_AUTHORIZER
from tests.daemon import REPOSITORY
from tests.hostile.attacks import ATTACKS, SETTINGS
from tests.hostile.share_attacks import SHARED
from tests.hostile.test_turns import LONGEST_S
from tests.hostile.turns import measured, slowness

SECONDS = 4.0
END_S = 60.0
SHARING = {
    "group_coordinator_rebalance_protocols": ("classic", "consumer", "share"),
    "group_share_partition_max_record_locks": 4_000,
}
GUARDED = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": ("User:ANONYMOUS",)}


@pytest.mark.hostile
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_no_attack_holds_the_loop(name: str, tmp_path: Path) -> None:
    """Its first stroke, which imports what is loaded by need, does not count."""
    settings: dict[str, Any] = {}
    if name in SETTINGS:
        settings = SHARING if SETTINGS[name] is SHARED else GUARDED
    with measured(tmp_path, max_partitions=20_000, **settings) as daemon:
        attack(name, daemon.port, 0.0)
        daemon.longest_s()
        attack(name, daemon.port, SECONDS)
        took_s, slow = daemon.longest_s(), slowness()
    told = f"{name}: {took_s * 1000:.1f} ms on a machine {slow:.1f} times slower"
    print(told)
    assert took_s <= LONGEST_S * slow, told


def attack(name: str, port: int, seconds: float) -> None:
    """Run an attack in a process of its own, which ends with a stroke, or is ended."""
    command = [sys.executable, "-m", "tests.hostile.attacks", name, str(port), str(seconds)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.wait(END_S) == 0
        except subprocess.TimeoutExpired:
            process.kill()
