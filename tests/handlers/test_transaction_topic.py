"""A client may create `__transaction_state`: its partitions serve transactional producers from then on, as on Kafka."""

from __future__ import annotations

from pathlib import Path

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import run, running_in_process


def test_a_producer_that_asks_for_no_coordinator_uses_a_topic_that_a_client_created(tmp_path: Path) -> None:
    async def ask() -> list[int]:
        async with running_in_process(tmp_path, {}) as ours:
            client = await ours.connect("raw")
            before = await client.ask(InitProducerIdRequest("t", 60_000), 4)
            await client.ask(CreateTopicsRequest([CreatableTopic("__transaction_state", 3, 1)]), 7)
            after = await client.ask(InitProducerIdRequest("t", 60_000), 4)
            client.close()
            return [before.error_code, after.error_code]

    assert run(ask()) == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
