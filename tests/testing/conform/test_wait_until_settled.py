"""The player of stories asks a broker that is behind its controller until it has caught up, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinatord.testing.conform.raw_client import Answer
from coordinatord.testing.conform.wait_until_settled import CHANGE_TIMEOUT_S, wait_until_settled
from kafka_wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafka_wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_wire.api.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import codec
from tests.reference.in_process import run

TOPIC = 2
GROUP = 32


class LaggingBroker:
    """Applies a change `lag_s` after its controller has answered; tells a setting's old value and two partitions until
    then. `refuses` has the resource types that DescribeConfigs is refused for.
    """

    def __init__(self, lag_s: float, refuses: frozenset[int] = frozenset()) -> None:
        self.lag_s = lag_s
        self.refuses = refuses
        self.is_open = True

    async def connect(self, _client_id: str) -> Any:
        return self

    def close(self) -> None:
        self.is_open = False

    async def ask(self, request: Any, _version: int) -> Any:
        has_applied = asyncio.get_running_loop().time() >= self.lag_s
        if isinstance(request, MetadataRequest):
            partitions = [MetadataResponsePartition(0, index) for index in range(5 if has_applied else 2)]
            return MetadataResponse(
                topics=[MetadataResponseTopic(0, topic.name, partitions=partitions) for topic in request.topics or []]
            )
        if isinstance(request, ListOffsetsRequest):
            return ListOffsetsResponse()
        assert isinstance(request, DescribeConfigsRequest)
        configs = [DescribeConfigsResourceResult("setting", "2" if has_applied else "1")]
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    ErrorCode.INVALID_REQUEST if each.resource_type in self.refuses else 0,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[] if each.resource_type in self.refuses else configs,
                )
                for each in request.resources
            ]
        )


def altered(
    *,
    resource_type: int = TOPIC,
    operation: int = 0,
    error: int = 0,
    name: str = "setting",
    validate_only: bool = False,
) -> Answer:
    change = AlterableConfig(name, operation, "2" if operation == 0 else None)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource_type, "it", [change])], validate_only)
    message = IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(error, None, resource_type, "it")]
    )
    return Answer(codec(44, 1), request, message)


def grown(*, error: int = 0) -> Answer:
    request = CreatePartitionsRequest([CreatePartitionsTopic("it", 5, None)], 1000)
    return Answer(codec(37, 1), request, CreatePartitionsResponse(results=[CreatePartitionsTopicResult("it", error)]))


def settled_after_s(broker: LaggingBroker, answer: Answer) -> float:
    async def timed() -> float:
        await wait_until_settled(broker.connect, answer)
        return asyncio.get_running_loop().time()

    return run(timed())


@pytest.mark.parametrize("answer", [altered(), altered(resource_type=GROUP), grown()], ids=["topic", "group", "grown"])
def test_what_a_broker_has_not_applied_yet_is_waited_for(answer: Answer) -> None:
    broker = LaggingBroker(3)
    assert settled_after_s(broker, answer) == pytest.approx(3, abs=0.11)
    assert not broker.is_open


@pytest.mark.parametrize(
    ("answer", "refuses"),
    [
        (altered(operation=1), frozenset()),
        (altered(error=ErrorCode.INVALID_CONFIG), frozenset()),
        (altered(validate_only=True), frozenset()),
        (altered(resource_type=GROUP), frozenset({GROUP})),
        (grown(error=ErrorCode.INVALID_PARTITIONS), frozenset()),
    ],
    ids=["nothing set", "refused", "validated only", "not told", "not grown"],
)
def test_what_does_not_come_is_not_waited_for(answer: Answer, refuses: frozenset[int]) -> None:
    assert settled_after_s(LaggingBroker(3, refuses), answer) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("answer", [altered(), grown()], ids=["setting", "grown"])
def test_a_broker_that_never_applies_a_change_is_played_on(answer: Answer) -> None:
    assert settled_after_s(LaggingBroker(1000), answer) == pytest.approx(CHANGE_TIMEOUT_S, abs=0.01)


def test_a_broker_that_never_tells_a_setting_is_played_on() -> None:
    assert settled_after_s(LaggingBroker(0), altered(name="no.such")) == pytest.approx(CHANGE_TIMEOUT_S, abs=0.01)
