"""The broker of a run: its settings and versions, and its readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from coordinatord.testing.conform.raw_client import BadAnswer, RawClient
from coordinatord.testing.conform.selection import Broker
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

_BROKER_RESOURCE = 4
_TRANSACTION = 1
_PROBES = 200
"""Number of group ids to probe before the first story: enough that each of fifty partitions has one of them."""
_AGAIN_S = 0.1
_BLIND_S = 10
"""Time in seconds to wait for a coordinator that responds to any heartbeat without an error, as Kafka's does while it
loads. After that time the stories are played, and show the error.
"""
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Unsuitable(Exception):
    """The stories cannot be played on this broker. The message is a sentence with the reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """Address of the broker. `timeout_s` limits each response and the wait until the broker is ready."""

    host: str
    port: int
    timeout_s: float = 40

    async def connect(self, client_id: str = "conform") -> RawClient:
        """Return a connection. Raises OSError or TimeoutError if there is none."""
        async with asyncio.timeout(self.timeout_s):
            return await RawClient.connect(self.host, self.port, client_id)


async def describe(target: Target, assumed: Mapping[str, str], *, is_own: bool) -> Broker:
    """Return the settings and versions of the broker; `assumed` settings override its own. Raises Unsuitable."""
    try:
        client = await target.connect()
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        raise Unsuitable(f"{target.host}:{target.port} does not accept connections: {why}.") from None
    try:
        async with asyncio.timeout(target.timeout_s):
            answered = await client.ask(ApiVersionsRequest("coordinatord-conform", "1"), 3)
            versions = {each.api_key: (each.min_version, each.max_version) for each in answered.api_keys}
            node_id = await _only_node(client, versions)
            settings = await _settings(client, versions, node_id)
    except (OSError, TimeoutError, BadAnswer) as error:
        told = str(error) or "no answer in time"
        raise Unsuitable(
            f"{target.host}:{target.port} does not answer as a Kafka broker without TLS and SASL does: {told}."
        ) from None
    finally:
        client.close()
    return Broker({**settings, **assumed}, versions, is_own)


async def _only_node(client: RawClient, versions: Mapping[int, tuple[int, int]]) -> int:
    version = min(versions.get(ApiKey.METADATA, (0, 1))[1], 9)
    answered = await client.ask(MetadataRequest([], False), version)
    if len(answered.brokers) != 1:
        raise Unsuitable(
            f"The cluster has {len(answered.brokers)} brokers. A story needs a single broker: use a cluster of one."
        )
    node_id: int = answered.brokers[0].node_id
    return node_id


async def _settings(client: RawClient, versions: Mapping[int, tuple[int, int]], node_id: int) -> dict[str, str]:
    """Return the broker's settings; empty if it does not return them."""
    first, last = versions.get(ApiKey.DESCRIBE_CONFIGS, (0, -1))
    if not first <= 1 <= last:
        return {}
    answered = await client.ask(DescribeConfigsRequest([DescribeConfigsResource(_BROKER_RESOURCE, str(node_id))]), 1)
    return {each.name: each.value for result in answered.results for each in result.configs if each.value is not None}


async def until_ready(target: Target, broker: Broker, run: str) -> None:
    """Wait until the broker is ready. A broker creates the coordinators' topics when the first request needs one, and
    loads them; both take a moment. The broker is ready once it responds that a group is unknown, and assigns a producer
    id to a transactional id. Raises Unsuitable if that takes longer than the target's timeout.
    """
    client = await target.connect()
    try:
        async with asyncio.timeout(target.timeout_s):
            blind_until_s = asyncio.get_running_loop().time() + min(_BLIND_S, target.timeout_s / 2)
            for number in range(_PROBES):
                await _group_ready(client, f"{run}.ready-{number}", blind_until_s)
            if ApiKey.INIT_PRODUCER_ID in broker.versions:
                await _transactions_ready(client, f"{run}.ready")
    except TimeoutError:
        raise Unsuitable(
            f"{target.host}:{target.port} has no coordinator that is ready after {target.timeout_s:g} s."
        ) from None
    finally:
        client.close()


async def _group_ready(client: RawClient, group_id: str, blind_until_s: float) -> None:
    while True:
        found = await client.ask(FindCoordinatorRequest(group_id), 0)
        if found.error_code not in _LOADING:
            known = await client.ask(HeartbeatRequest(group_id, 1, "unknown-member"), 0)
            is_blind = known.error_code == ErrorCode.NONE and asyncio.get_running_loop().time() < blind_until_s
            if known.error_code not in _LOADING and not is_blind:
                return
        await asyncio.sleep(_AGAIN_S)


async def _transactions_ready(client: RawClient, transactional_id: str) -> None:
    while True:
        await client.ask(FindCoordinatorRequest(transactional_id, _TRANSACTION), 1)
        given = await client.ask(InitProducerIdRequest(transactional_id, 1000), 0)
        if given.error_code not in (*_LOADING, ErrorCode.CONCURRENT_TRANSACTIONS):
            return
        await asyncio.sleep(_AGAIN_S)
