"""Our client against Apache Kafka itself: the same stories as against our daemon. It keeps the model honest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.broker import KafkaBroker, running_broker
from tests.testing.member.client_stories import STORIES

pytestmark = pytest.mark.reference

SETTINGS = {"group.initial.rebalance.delay.ms": "100", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def broker(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(kafka_libs, tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka:
        yield kafka


@pytest.mark.parametrize("story", STORIES)
async def test_story(broker: KafkaBroker, story: str) -> None:
    await STORIES[story](broker.bootstrap, story)
