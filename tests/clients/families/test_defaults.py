"""Clients as they come, with the settings that they have by default: the members whose traffic is recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient

from tests.clients.families.clients import CLIENTS, Client
from tests.clients.families.program import Program, wait_for_values
from tests.clients.kinds import MakeTopic, Name, Produce
from tests.clients.traffic import FAMILIES
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

RECORDED = [client for client in CLIENTS if client.name in FAMILIES.values()]
RECORDS = 30


@pytest.mark.parametrize("client", RECORDED, ids=[client.slug for client in RECORDED])
def test_a_member_commits_by_itself_and_is_known_by_its_client_id(
    client: Client,
    bootstrap: str,
    make_topic: MakeTopic,
    name: Name,
    start: Callable[..., Program],
    produce: Produce,
    admin: KafkaAdminClient,
) -> None:
    """While it runs, every five seconds, and not after each batch."""
    group, topic = name("group"), make_topic(2)
    member = start(
        mode="consume", settings="default", bootstrap=bootstrap, group=group, topic=topic, client_id="family-7"
    )
    wait_for_values([member], produce(topic, RECORDS, 2))
    wait_until(
        lambda: sum(each.offset for each in admin.list_group_offsets([group])[group].values()) == RECORDS,
        f"commits of {RECORDS} records",
        seen=lambda: admin.list_group_offsets([group]),
    )
    assert not member.of_kind("COMMITTED"), "it did not commit them itself"
    (described,) = admin.describe_groups([group])[group]["members"]
    assert described["client_id"] == "family-7"
    member.close()
