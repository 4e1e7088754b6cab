"""`coordinatord conform` finds no difference between Apache Kafka and the answers that were recorded from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinatord.testing.conform.selection import KAFKA_DEFAULTS, settings_of
from coordinatord.testing.conform.story import all_stories
from tests.reference.broker import running_broker

pytestmark = pytest.mark.reference

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}
DEFAULTS = {**KAFKA_DEFAULTS, **SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer"}


@pytest.mark.timeout(900)
def test_kafka_differs_in_nothing(kafka_libs: Path, tmp_path: Path) -> None:
    """A twentieth of the stories that fit this broker. The settings are not the tests' own: there are fifty partitions
    of `__consumer_offsets`, and other stories' groups and topics.
    """
    fitting = [story for story in all_stories() if not (story.alone or story.slow)]
    fitting = [story for story in fitting if settings_of(story).items() <= DEFAULTS.items()]
    share = fitting[::20]
    assert len(share) >= 5
    only = [argument for story in share for argument in ("--only", story.name)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATORD_")}
    with running_broker(kafka_libs, tmp_path, SETTINGS) as broker:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "coordinatord",
                "conform",
                "--bootstrap",
                f"{broker.host}:{broker.port}",
                "--timeout",
                "200",
                "--json",
                *only,
            ],
            capture_output=True,
            text=True,
            timeout=800,
            env=environment,
            check=False,
        )
    found = json.loads(done.stdout)
    assert found["not_played"] == 0, done.stdout
    assert found["differs"] == 0, json.dumps(
        [each for each in found["stories"] if each["verdict"] == "differs"], indent=2
    )
    assert found["same"] == len(share)
    assert done.returncode == 0
