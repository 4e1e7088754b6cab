"""Requests about ACLs and quotas, in order, whose whole answers were recorded from Apache Kafka:
`python -m tests.server.access.answers`. Each is asked by the super user; what is no ACL or no quota is asked, too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.api.describe_acls import DescribeAclsRequest
from kafka_wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.server.access.cases import SUPER
from tests.server.access.kafka import logged_in, secured_kafka

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-acl-answers.json"


def _acl(kind: int = 2, name: str = "t", pattern: int = 3, who: str = "User:a", operation: int = 3, permission: int = 3,
         host: str = "*") -> AclCreation:  # fmt: skip
    return AclCreation(kind, name, pattern, who, host, operation, permission)


def _quota(*entities: dict[str, str | None], validate_only: bool = False, **values: float | None) -> Any:
    return AlterClientQuotasRequest(
        [
            EntryData(
                [EntityData(kind, name) for kind, name in entity.items()],
                [OpData(key, value or 0.0, value is None) for key, value in values.items()],
            )
            for entity in entities
        ],
        validate_only,
    )


def _quotas(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
    return DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict)


ALL = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
REQUESTS: tuple[tuple[Any, int], ...] = (
    (CreateAclsRequest([_acl(), _acl(), _acl(name="p", pattern=4), _acl(name="*", operation=2, permission=2)]), 3),
    (CreateAclsRequest([_acl(kind=3, name="g"), _acl(kind=4, name="kafka-cluster", operation=8)]), 1),
    (CreateAclsRequest([_acl(kind=5, name="x", operation=15), _acl(kind=6, name="d"), _acl(kind=7, name="User:u")]), 2),
    (CreateAclsRequest([_acl(kind=4, name="other"), _acl(name=""), _acl(who="alice"), _acl(who=""), _acl(host="")]), 3),
    (CreateAclsRequest([_acl(kind=1), _acl(pattern=1), _acl(pattern=2), _acl(operation=1), _acl(permission=1)]), 3),
    (CreateAclsRequest([_acl(kind=1), _acl(name="n")]), 3),
    (CreateAclsRequest([_acl(kind=0), _acl(name="n")]), 3),
    (CreateAclsRequest([_acl(permission=0)]), 3),
    (CreateAclsRequest([_acl(kind=99), _acl(pattern=99), _acl(operation=99), _acl(permission=99), _acl(name="n")]), 3),
    (DescribeAclsRequest(0, None, 1, None, None, 1, 1), 3),
    (DescribeAclsRequest(99, None, 1, None, None, 1, 1), 3),
    (DescribeAclsRequest(1, None, 1, None, None, 99, 1), 3),
    (DeleteAclsRequest([DeleteAclsFilter(1, None, 0, None, None, 1, 1)]), 3),
    (DeleteAclsRequest([DeleteAclsFilter(99, None, 1, None, None, 1, 1)]), 3),
    (DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 99, 1)]), 3),
    (CreateAclsRequest([]), 3),
    (ALL, 3),
    (ALL, 1),
    (DescribeAclsRequest(2, "t", 3, None, None, 1, 1), 3),
    (DescribeAclsRequest(2, "prefix", 2, None, None, 1, 1), 3),
    (DescribeAclsRequest(2, "t", 1, "User:a", "*", 3, 3), 3),
    (DescribeAclsRequest(1, None, 4, None, None, 1, 2), 3),
    (DescribeAclsRequest(1, "", 1, "", "", 1, 1), 3),
    (
        DeleteAclsRequest(
            [DeleteAclsFilter(2, "p", 2, None, None, 1, 1), DeleteAclsFilter(2, "t", 3, None, None, 1, 1)]
        ),
        3,
    ),
    (
        DeleteAclsRequest(
            [DeleteAclsFilter(2, "t", 3, None, None, 1, 1), DeleteAclsFilter(5, None, 1, None, None, 1, 1)]
        ),
        2,
    ),
    (DeleteAclsRequest([]), 3),
    (ALL, 3),
    (DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]), 3),
    (ALL, 3),
    (CreateAclsRequest([_acl(host="10.0.0.0/8"), _acl(host="fe80::1/10"), _acl(host="10.0.0.0/33")]), 3),
    (CreateAclsRequest([_acl(host="300.0.0.0/8"), _acl(host="a/8"), _acl(host="g::/8"), _acl(host="::1/129")]), 3),
    (CreateAclsRequest([_acl(host="10.0.0.0"), _acl(host="a")]), 3),
    (DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, "10.0.0.0/8", 1, 1)]), 3),
    (DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]), 3),
    (_quota({"user": "u"}, {"user": None}, {"client-id": "c"}, producer_byte_rate=1000.0, request_percentage=12.5), 1),
    (_quota({"user": "u", "client-id": None}, consumer_byte_rate=1.0, controller_mutation_rate=0.5), 0),
    (_quota({"ip": "10.0.0.1"}, {"ip": None}, connection_creation_rate=5.0), 1),
    (_quota({"user": "v"}, validate_only=True, producer_byte_rate=1.0), 1),
    (_quota({}, producer_byte_rate=1.0), 1),
    (_quota({"host": "h"}, producer_byte_rate=1.0), 1),
    (_quota({"user": ""}, producer_byte_rate=1.0), 1),
    (_quota({"user": "u"}, producer_byte_rate=0.0), 1),
    (_quota({"user": "u"}, producer_byte_rate=-1.0), 1),
    (_quota({"user": "u"}, producer_byte_rate=1.5), 1),
    (_quota({"user": "u"}, producer_byte_rate=1e30), 1),
    (_quota({"user": "u"}, request_percentage=1e30), 1),
    (_quota({"user": "u"}, no_such_key=1.0), 1),
    (_quota({"user": "u"}, no_such_key=None), 1),
    (_quota({"ip": "10.0.0.1"}, producer_byte_rate=1.0), 1),
    (_quota({"ip": "10.0.0.1", "user": "u"}, connection_creation_rate=1.0), 1),
    (_quota({"ip": "10.0.0.1"}, connection_creation_rate=1e10), 1),
    (_quotas(), 1),
    (_quotas(strict=True), 1),
    (_quotas(("user", 0, "u")), 1),
    (_quotas(("user", 0, "u"), strict=True), 0),
    (_quotas(("user", 1, None)), 1),
    (_quotas(("user", 2, None), ("client-id", 1, None), strict=True), 1),
    (_quotas(("ip", 2, None)), 1),
    (_quotas(("ip", 2, None), ("user", 2, None)), 1),
    (_quotas(("user", 0, None)), 1),
    (_quotas(("user", 1, "u")), 1),
    (_quotas(("user", 2, "u")), 1),
    (_quotas(("user", 9, None)), 1),
    (_quotas(("user", 2, None), ("user", 1, None)), 1),
    (_quotas(("", 2, None)), 1),
    (_quotas(("group", 2, None)), 1),
    (_quota({"user": "u"}, {"user": None}, {"client-id": "c"}, producer_byte_rate=None, request_percentage=None), 1),
    (_quotas(), 1),
)


IN_ORDER = ("results", "filter_results")
"""Lists whose elements answer those of the request, one by one."""


def canonical(message: Any, name: str = "") -> Any:
    """A message as JSON, its lists in an order of their own where Kafka's is that of its hash tables."""
    if isinstance(message, list):
        made = [canonical(each) for each in message]
        return made if name in IN_ORDER else sorted(made, key=json.dumps)
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message)]
        return {each: canonical(getattr(message, each), each) for each in names}
    return message


async def answers(connect: Callable[[str], Awaitable[RawClient]]) -> list[Any]:
    """What a broker answers to each request; "closed" if it closes the connection."""
    found: list[Any] = []
    client = await connect(SUPER)
    for request, version in REQUESTS:
        try:
            found.append(canonical(await client.ask(request, version)))
        except ConnectionError:
            found.append("closed")
            client = await connect(SUPER)
        await asyncio.sleep(0.05)  # Kafka's broker learns of what its controller has changed
    client.close()
    return found


def recorded() -> list[Any]:
    """Kafka's answers."""
    known: list[Any] = json.loads(GOLDEN.read_text())
    return known


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as directory, secured_kafka(Path(directory), (SUPER,)) as broker:
        found = asyncio.run(answers(logged_in(broker.port)))
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(each, sort_keys=True) for each in found) + "\n]\n")


if __name__ == "__main__":
    main()
