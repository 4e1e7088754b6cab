"""Networks as hosts of ACLs: Kafka's CidrUtils has been asked about each of these."""

from __future__ import annotations

import pytest

from coordinatord.transport.security.authorizer import Acl, Authorizer, Operation, Permission, ResourceType, record_of
from coordinatord.transport.security.networks import is_within, network_of
from tests.server.access.record_networks import HOSTS, recorded


@pytest.mark.parametrize(("pattern", "error", "hosts"), recorded(), ids=lambda each: str(each)[:30])
def test_a_network_is_kafkas(pattern: str, error: str | None, hosts: list[str]) -> None:
    if error is None:
        network_of(pattern)
    else:
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            network_of(pattern)
        assert str(raised.value) == error
    assert [host for host in HOSTS if is_within(host, pattern)] == hosts


@pytest.mark.parametrize(("host", "is_allowed"), [("10.9.9.9", True), ("11.0.0.1", False)])
def test_an_acl_of_a_network_allows_its_addresses(host: str, is_allowed: bool) -> None:
    authorizer = Authorizer()
    acl = Acl(ResourceType.TOPIC, "t", 3, "User:a", "10.0.0.0/8", Operation.READ, Permission.ALLOW)
    authorizer.replay(record_of(bytes(16), acl))
    assert authorizer.allows("User:a", host, Operation.READ, ResourceType.TOPIC, "t") is is_allowed
    assert authorizer.allows_some("User:a", host, Operation.READ, ResourceType.TOPIC) is is_allowed
