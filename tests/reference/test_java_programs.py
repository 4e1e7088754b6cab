"""The recorded answers that the quick tests compare with are those of Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.java_programs import PROGRAMS

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_recorded_is_what_kafka_says(name: str, kafka_libs: Path) -> None:
    record = f"the cases have changed: python -m tests.reference.java_programs {name}"
    assert PROGRAMS[name].read() == PROGRAMS[name].pairs(kafka_libs), record
