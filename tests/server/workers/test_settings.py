"""What `workers` means for the other settings."""

from __future__ import annotations

import dataclasses

import pytest

from coordinatord.base.config import Settings, load
from coordinatord.base.config.load import assignment
from coordinatord.server.workers.supervisor import worker_settings
from tests.test_config import problems_of


def settings_of(*assignments: str) -> Settings:
    return load(flags=[assignment(text, "--set") for text in assignments]).settings


def test_a_worker_has_the_next_id_and_the_next_ports() -> None:
    settings = settings_of(
        "workers=3", "node.id=5", "listeners=PLAINTEXT://:9092,IN://127.0.0.1:0",
        "advertised.listeners=PLAINTEXT://kafka:19092",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:PLAINTEXT",
        "admin.listeners=127.0.0.1:9644",
    )  # fmt: skip
    third = worker_settings(settings, 2)
    assert third.node_id == 7
    assert [(each.name, each.port) for each in third.listeners] == [("PLAINTEXT", 9094), ("IN", 0)]
    assert [each.port for each in third.advertised_listeners] == [19094]
    assert [each.port for each in third.admin_listeners] == [9646]
    assert dataclasses.asdict(worker_settings(settings, 0)) == dataclasses.asdict(settings)


def test_one_worker_is_the_default() -> None:
    assert Settings().workers == 1


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (["workers=0"], "workers must be at least 1"),
        (["workers=4", "admin.listeners=127.0.0.1:9095"], "4 workers need 4 ports from 9092 on (listeners)"),
        (["workers=4", "listeners=127.0.0.1:65533"], "4 workers from port 65533 on need ports above 65535"),
        (["workers=2", "node.id=2147483647"], "ids up to 2147483648"),
    ],
)
def test_what_cannot_be_is_told(assignments: list[str], sentence: str) -> None:
    assert any(sentence in problem for problem in problems_of(*assignments)), problems_of(*assignments)


@pytest.mark.parametrize(
    "assignments",
    [
        ["workers=4", "admin.listeners=127.0.0.1:9096"],
        ["workers=4", "admin.listeners=127.0.0.2:9093"],  # another address has ports of its own
        ["workers=4", "listeners=127.0.0.1:0", "admin.listeners=127.0.0.1:0"],
    ],
)
def test_what_can_be_is_not_refused(assignments: list[str]) -> None:
    assert settings_of(*assignments).workers == 4


def test_one_process_may_listen_at_one_port_of_both_address_families() -> None:
    """KIP-797: two listeners share a port if one has an IPv4 address and the other an IPv6 address."""
    settings = settings_of(
        "listeners=FOUR://0.0.0.0:9092,SIX://[::]:9092",
        "advertised.listeners=FOUR://kafka:9092,SIX://kafka:9092",
        "listener.security.protocol.map=FOUR:PLAINTEXT,SIX:PLAINTEXT",
    )
    assert [(each.host, each.port) for each in settings.listeners] == [("0.0.0.0", 9092), ("::", 9092)]
