"""Verbs and faults of a coordinatord over HTTP, from Python. Standard library and kafka-python."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from kafka import KafkaConsumer, KafkaProducer


class Coordinatord:
    """A coordinatord of this test alone, and its control."""

    def __init__(self, directory: Path) -> None:
        ready = directory / "ready.json"
        command = [os.environ.get("COORDINATORD", "coordinatord"), "serve"]
        command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ready-file", str(ready)]
        command += ["--data-dir", str(directory / "data"), "--set", "test.control.enable=true"]
        command += ["--set", "group.initial.rebalance.delay.ms=0", "--set", "log.flush=never"]
        command += ["--set", "log.retention.ms=-1"]  # or records are gone as well when offsets expire, after a week
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ends = time.monotonic() + 90
        while not ready.exists():
            assert self.process.poll() is None, "coordinatord has ended"
            assert time.monotonic() < ends, "coordinatord has not started"
            time.sleep(0.01)
        told = json.loads(ready.read_text())
        self.bootstrap_servers: str = told["listeners"][0]
        self.control: str = f"{told['admin'][0]}/test"

    def ask(self, method: str, path: str, **arguments: object) -> Any:
        """What the control answers."""
        asked = urllib.request.Request(f"{self.control}{path}?{urlencode(arguments)}", method=method)
        with urllib.request.urlopen(asked, timeout=40) as answer:
            return json.load(answer)

    @contextlib.contextmanager
    def fault(self, kind: str, api: str, **arguments: object) -> Iterator[int]:
        """A fault for as long as a block lasts: its number."""
        number = self.ask("POST", "/faults", kind=kind, api=api, **arguments)["fault"]
        yield number
        self.ask("DELETE", f"/faults/{number}")


@pytest.fixture
def coordinatord(tmp_path: Path) -> Iterator[Coordinatord]:
    started = Coordinatord(tmp_path)
    yield started
    started.process.terminate()
    started.process.wait(60)


def consumer(coordinatord: Coordinatord) -> KafkaConsumer:
    """A member of the group `billing`."""
    return KafkaConsumer(
        "orders",
        bootstrap_servers=coordinatord.bootstrap_servers,
        client_id="a",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
        fetch_max_wait_ms=50,
    )


def send(coordinatord: Coordinatord, value: bytes) -> None:
    with contextlib.closing(KafkaProducer(bootstrap_servers=coordinatord.bootstrap_servers)) as producer:
        producer.send("orders", value).get(timeout=60)


def test_a_commit_is_tried_again(coordinatord: Coordinatord) -> None:
    send(coordinatord, b"coffee")
    with contextlib.closing(consumer(coordinatord)) as reading:
        assert next(reading).value == b"coffee"
        with coordinatord.fault("fail", "OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=2) as fault:
            reading.commit()
            assert coordinatord.ask("GET", f"/faults/{fault}")["hits"] == 2


def test_an_expelled_member_comes_back(coordinatord: Coordinatord) -> None:
    send(coordinatord, b"coffee")
    with contextlib.closing(consumer(coordinatord)) as reading:
        next(reading)
        gone = coordinatord.ask("POST", "/groups/billing/members/a/expire")["member_id"]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            reading.poll(timeout_ms=100)
            told = coordinatord.ask("GET", "/groups/billing")
            if told["state"] == "Stable" and told["members"][0]["member_id"] != gone:
                break
        assert told["rebalances"][-1]["outcome"] == "completed"
        assert [each["member_id"] for each in told["members"]] != [gone]


def test_offsets_expire(coordinatord: Coordinatord) -> None:
    send(coordinatord, b"coffee")
    with contextlib.closing(consumer(coordinatord)) as reading:
        next(reading)
        reading.commit()
    coordinatord.ask("POST", "/clock/advance", by_ms=8 * 24 * 60 * 60 * 1000)
    with contextlib.closing(consumer(coordinatord)) as reading:
        assert next(reading).value == b"coffee"  # the group begins anew
