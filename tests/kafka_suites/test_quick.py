"""The quickest of Kafka's classes on coordinatord: what passes on Kafka passes here, but for the known differences."""

from __future__ import annotations

import os

import pytest

from tests.kafka_suites import stored, table
from tests.kafka_suites.play import play
from tests.kafka_suites.suites import QUICK
from tests.reference.broker import ReferenceUnavailable

pytestmark = [pytest.mark.reference, pytest.mark.full, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("name", QUICK)
def test_a_class_passes_as_on_kafka(name: str) -> None:
    try:
        played = play("coordinatord", name, deadlines=False)
    except ReferenceUnavailable as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"skipped: {missing}")
    missed = table.missed(name, stored.read("kafka")[name], played)
    assert {test: played.failed.get(test) for test in missed if not table.reason(name, test)} == {}
    assert played.passed
