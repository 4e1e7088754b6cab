"""The player of stories waits for a coordinator that loads, also for one that answers heartbeats meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from coordinatord.testing.conform.selection import Broker
from coordinatord.testing.conform.target import Target, Unsuitable, until_ready
from kafka_wire.api.find_coordinator import FindCoordinatorResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import run

NEVER_S = 1e9


class LoadingBroker:
    """Has loaded its groups after so many seconds; until then its heartbeats have this error."""

    host, port, timeout_s = "nowhere", 1, 40.0

    def __init__(self, loaded_s: float, meanwhile: ErrorCode) -> None:
        self.loaded_s = loaded_s
        self.meanwhile = meanwhile

    async def connect(self) -> Any:
        return self

    def close(self) -> None: ...

    async def ask(self, request: Any, _version: int) -> Any:
        if isinstance(request, HeartbeatRequest):
            loads = asyncio.get_running_loop().time() < self.loaded_s
            return HeartbeatResponse(error_code=self.meanwhile if loads else ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=1, producer_epoch=0)
        return FindCoordinatorResponse()


def ready_after_s(loaded_s: float, meanwhile: ErrorCode) -> float:
    broker = Broker({}, {ApiKey.INIT_PRODUCER_ID: (0, 5)}, is_own=False)

    async def timed() -> float:
        await until_ready(cast(Target, LoadingBroker(loaded_s, meanwhile)), broker, "run")
        return asyncio.get_running_loop().time()

    return run(timed())


@pytest.mark.parametrize("meanwhile", [ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_loads_is_waited_for(meanwhile: ErrorCode) -> None:
    assert ready_after_s(3, meanwhile) == pytest.approx(3, abs=0.11)


def test_one_that_never_has_an_error_is_played_on() -> None:
    """The stories show that it is wrong."""
    assert ready_after_s(NEVER_S, ErrorCode.NONE) == pytest.approx(10, abs=0.11)


def test_one_that_never_loads_is_unsuitable() -> None:
    with pytest.raises(Unsuitable, match="no coordinator that is ready after 40 s"):
        ready_after_s(NEVER_S, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
