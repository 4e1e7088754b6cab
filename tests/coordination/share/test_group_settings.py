"""The settings of share groups: a group's own, or the broker's."""

from __future__ import annotations

import pytest

from coordinatord.coordination.share.group_settings import GroupShareSettings
from coordinatord.coordination.share.leader import EARLIEST, LATEST
from coordinatord.coordination.share.partition.state import Limits
from coordinatord.transport.net.cooperative_tasks import run_through
from tests.broker.topics.world import World

OWN = {
    "share.record.lock.duration.ms": "20000",
    "share.delivery.count.limit": "3",
    "share.partition.max.record.locks": "200",
    "share.renew.acknowledge.enable": "false",
    "share.isolation.level": "read_committed",
}


def test_a_group_has_its_own_settings_and_the_broker_the_rest() -> None:
    world = World(group_share_delivery_count_limit=7)
    configs = world.topics.group_configs
    settings = GroupShareSettings(configs)
    assert settings.limits("g") == Limits(30_000, 7, 2_000, renew_acknowledge_enable=True)
    run_through(configs.configure({"g": OWN}))
    assert settings.limits("g") == Limits(20_000, 3, 200, renew_acknowledge_enable=False)
    assert settings.limits("other") == Limits(30_000, 7, 2_000, renew_acknowledge_enable=True)
    assert (settings.reads_committed("g"), settings.reads_committed("other")) == (True, False)
    run_through(configs.configure({"g": {}}))
    assert settings.limits("g") == settings.limits("other")


@pytest.mark.parametrize(("text", "timestamp"), [
    (None, LATEST), ("latest", LATEST), ("earliest", EARLIEST), ("by_duration:PT1H", 6_400_000),
    ("by_duration:P1D", 0),
])  # fmt: skip
def test_the_start(text: str | None, timestamp: int) -> None:
    configs = World().topics.group_configs
    if text is not None:
        run_through(configs.configure({"g": {"share.auto.offset.reset": text}}))
    assert GroupShareSettings(configs).reset_timestamp("g", 10_000_000) == timestamp
