"""Removal of the topics and groups of the stories from a broker: those whose names begin with the run's, and no others.

Members of these groups leave first. Two kinds of objects remain, and a broker removes both by itself: groups that wait
for a member that received an id and never joined, and transactional ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from coordinatord.testing.conform.raw_client import BadAnswer, RawClient
from coordinatord.testing.conform.selection import Broker
from coordinatord.testing.conform.target import Target
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.share_group_describe import ShareGroupDescribeRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

_LEAVE_EPOCH = -1


class _Cleaner:
    def __init__(self, client: RawClient, broker: Broker, run: str) -> None:
        self.client = client
        self.versions = broker.versions
        self.run = run

    async def ask(self, api: ApiKey, request: Any, highest: int) -> Any:
        """Return the response in the highest version up to `highest` that the broker supports; None if it supports
        none.
        """
        first, last = self.versions.get(api, (0, -1))
        version = min(last, highest)
        return await self.client.ask(request, version) if version >= first else None

    def own(self, names: Iterable[str | None]) -> list[str]:
        return sorted(name for name in names if name is not None and name.startswith(f"{self.run}."))

    async def groups(self) -> list[str]:
        """Delete groups; return the names of those that are left."""
        listed = await self.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(), 2)
        own = self.own(group.group_id for group in listed.groups) if listed else []
        if not own:
            return []
        await self.leave(own)
        deleted = await self.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(own), 1)
        if deleted is None:
            return own
        fine = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
        return [f"group {result.group_id}" for result in deleted.results if result.error_code not in fine]

    async def leave(self, groups: list[str]) -> None:
        """Remove each member of these groups, by the protocol that it joined with."""
        described = await self.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups), 2)
        for group in described.groups if described else []:
            for member in group.members:
                await self.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group.group_id, member.member_id), 2)
        described = await self.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(groups), 0)
        for group in described.groups if described else []:
            for member in group.members:
                left = ConsumerGroupHeartbeatRequest(group.group_id, member.member_id, _LEAVE_EPOCH, member.instance_id)
                await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, left, 0)
                await self.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group.group_id, member.member_id), 2)
        described = await self.ask(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(groups), 1)
        for group in described.groups if described else []:
            for member in group.members:
                left_share = ShareGroupHeartbeatRequest(group.group_id, member.member_id, _LEAVE_EPOCH)
                await self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, left_share, 1)

    async def topics(self) -> list[str]:
        """Delete topics; return the names of those that are left."""
        listed = await self.ask(ApiKey.METADATA, MetadataRequest(None, False), 9)
        own = self.own(topic.name for topic in listed.topics)
        if not own:
            return []
        request = DeleteTopicsRequest(topic_names=own, timeout_ms=30_000)
        deleted = await self.ask(ApiKey.DELETE_TOPICS, request, 1)
        if deleted is None:
            return own
        fine = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return [f"topic {result.name}" for result in deleted.responses if result.error_code not in fine]


async def clean_up(target: Target, broker: Broker, run: str) -> list[str]:
    """Delete the topics and groups of the run. Return the names of those that are left."""
    try:
        async with asyncio.timeout(target.timeout_s):
            client = await target.connect()
            try:
                cleaner = _Cleaner(client, broker, run)
                return await cleaner.groups() + await cleaner.topics()
            finally:
                client.close()
    except (OSError, BadAnswer):
        return [f"{run}.*"]
