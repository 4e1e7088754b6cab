"""The exporter on our daemon: each value of each series beside `coordinatord lag`, readiness, a broker that goes."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from coordinatord.base.config.address import Listener
from coordinatord.base.observe.health import Health
from coordinatord.cli import cli, exporter
from coordinatord.monitoring.dashboard.series import SERIES
from coordinatord.monitoring.dashboard.view import Limits
from coordinatord.monitoring.exporter import serving
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.exporter.reading import Reading
from coordinatord.monitoring.exporter.serving import EXPORTER, serve
from coordinatord.monitoring.exporter.watcher import Watcher
from tests.daemon import Daemon, running
from tests.monitoring.exporter.scraped import Samples, expected, get, of, samples
from tests.support.waiting import wait_until

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@contextmanager
def exporting(bootstrap: str, **choice: Any) -> Iterator[tuple[str, Watcher]]:
    """The exporter's address, and its watcher."""
    limits = Limits(choice.pop("groups", 100), choice.pop("partitions", 100))
    reading = Reading(Choice(room=limits.groups, **choice), Choice(), limits)
    health = Health()
    watcher = Watcher(bootstrap, {"request_timeout_ms": 3_000}, reading, health, interval_s=0.2)
    server = serve(Listener("HTTP", "127.0.0.1", 0), watcher, health, "test")
    watcher.start()
    try:
        yield server.url.rstrip("/"), watcher
    finally:
        watcher.stop()
        server.stop()


def looked(watcher: Watcher, times: int = 2) -> None:
    """Wait until it has looked again, from begin to end."""
    target = watcher.looks + times
    wait_until(lambda: watcher.looks >= target, "a look", seen=lambda: watcher.why)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Two groups: one that has read a part, and one with a name made to hurt. Tests add others."""
    path = tmp_path_factory.mktemp("daemon")
    with running(path, {"num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}) as daemon:
        with KafkaProducer(bootstrap_servers=daemon.bootstrap) as producer:
            for topic, count in (("orders", 30), ("pay.ments", 9)):
                for number in range(count):
                    producer.send(topic, b"x", partition=number % 3)
        commit(daemon, "audit", {("orders", 0): 4, ("orders", 1): 10, ("pay.ments", 2): 1})
        commit(daemon, 'e"vil\\\n{}<b>', {("orders", 2): 3})
        yield daemon


def commit(daemon: Daemon, group: str, offsets: dict[tuple[str, int], int]) -> None:
    consumer = KafkaConsumer(group_id=group, bootstrap_servers=daemon.bootstrap, enable_auto_commit=False)
    consumer.commit({TopicPartition(*place): OffsetAndMetadata(n, "", -1) for place, n in offsets.items()})
    consumer.close()


@contextmanager
def member(daemon: Daemon, group: str) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(
        "orders", group_id=group, bootstrap_servers=daemon.bootstrap, enable_auto_commit=False, client_id="one",
        auto_offset_reset="earliest",
    )  # fmt: skip
    wait_until(lambda: bool(consumer.poll(2_000)) or bool(consumer.assignment()), "an assignment")
    consumer.commit({TopicPartition("orders", n): OffsetAndMetadata(10, "", -1) for n in range(3)})
    yield consumer
    consumer.close()


def told_by_lag(daemon: Daemon) -> list[dict[str, Any]]:
    told = CliRunner().invoke(cli, ["lag", "--bootstrap", daemon.bootstrap, "--json"])
    assert told.exit_code == 0, told.output
    rows: list[dict[str, Any]] = json.loads(told.output)
    return rows


def test_every_series_is_what_lag_says(daemon: Daemon) -> None:
    with member(daemon, "billing"), exporting(daemon.bootstrap) as (url, watcher):
        looked(watcher)
        found = samples(get(f"{url}/metrics")[2])
        rows = told_by_lag(daemon)
        told = json.loads(get(f"{url}/groups/group?name=audit")[2])["found"]
        assert told["expiries"], "the broker tells its offsets.retention.minutes"
        assert {each["counts_from"] for each in told["expiries"]} == {"simple"}
    assert len(rows) >= 7
    for name, values in expected(rows).items():
        assert of(found, name) == values, name
    groups = {row["group_id"] for row in rows}
    commits = {
        row["group_id"]: max(r["committed_ms"] for r in rows if r["group_id"] == row["group_id"]) for row in rows
    }
    last = of(found, "coordinatord_group_last_commit_timestamp_seconds")
    assert last == {(group,): ms / 1000 for group, ms in commits.items()}
    statuses = {key[0]: key[1] for key, value in of(found, "coordinatord_group_status").items() if value == 1}
    worst = {group: [row["status"] for row in rows if row["group_id"] == group] for group in groups}
    assert statuses.keys() == groups
    assert all(statuses[group] in worst[group] for group in groups)
    assert of(found, "kminion_kafka_consumer_group_members") == {("billing",): 1}
    assert of(found, "coordinatord_watch_left_out") == {("groups",): 0, ("partitions",): 0}
    assert of(found, "coordinatord_watch_groups") == {(): 3}
    told = {name.removesuffix("_total") for name, _ in found}
    names = {name.removesuffix("_total") for name in (*SERIES, *EXPORTER) if "_share_group_" not in name}
    assert names - told <= {"coordinatord_group_rebalances"}
    assert {dict(labels)["cluster_name"] for name, labels in found if name in SERIES} == {"test"}


def test_what_happens_is_counted(daemon: Daemon) -> None:
    """Rebalances by cause and commits, those since the start; and lag as it falls."""
    began_s = time.time()
    with exporting(daemon.bootstrap) as (url, watcher):
        looked(watcher)
        with member(daemon, "fresh"):
            looked(watcher)
            found = samples(get(f"{url}/metrics")[2])
            assert of(found, "kminion_kafka_consumer_group_members")["fresh",] == 1
            assert of(found, "kminion_kafka_consumer_group_offset_commits_total")["fresh",] == 3
            # its topic's partitions are known to kafka-python after its first join, so that it rejoins once
            causes = {key[0]: value for key, value in of(found, "coordinatord_group_rebalances_total").items()}
            assert causes["new member"] == 1
            assert of(found, "kminion_kafka_consumer_group_offset_commits_total").get(("audit",)) == 0
        looked(watcher)
        found = samples(get(f"{url}/metrics")[2])
        assert of(found, "kminion_kafka_consumer_group_members")["fresh",] == 0
        assert of(found, "coordinatord_group_rebalances_total")["member left", "fresh"] == 1
        assert of(found, "kafka_consumergroup_group_sum_lag")["fresh",] == 0
        with KafkaProducer(bootstrap_servers=daemon.bootstrap) as producer:
            producer.send("orders", b"x", partition=0)
        looked(watcher, 3)  # two whole ones: at the first that finds the record, it has waited 0 s for certain
        found = samples(get(f"{url}/metrics")[2])
        assert of(found, "kafka_consumergroup_group_lag")["fresh", "0", "orders"] == 1
        waited = of(found, "kafka_consumergroup_group_lag_seconds")
        assert 0 < waited["fresh", "0", "orders"] < time.time() - began_s
        assert waited["fresh", "1", "orders"] == 0
        commit(daemon, "fresh", {("orders", 0): 11})
        looked(watcher)
        found = samples(get(f"{url}/metrics")[2])
        assert of(found, "kafka_consumergroup_group_sum_lag")["fresh",] == 0


def test_groups_are_chosen_and_limited(daemon: Daemon) -> None:
    with exporting(daemon.bootstrap, allow=("aud.*",)) as (url, watcher):
        looked(watcher)
        found = samples(get(f"{url}/metrics")[2])
        assert of(found, "kafka_consumergroup_group_sum_lag").keys() == {("audit",)}
    with exporting(daemon.bootstrap, groups=1, partitions=2) as (url, watcher):
        looked(watcher)
        found = samples(get(f"{url}/metrics")[2])
        assert of(found, "coordinatord_watch_groups") == {(): 1}
        groups = {row["group_id"] for row in told_by_lag(daemon)}  # more of them if other tests were here before
        assert of(found, "coordinatord_watch_left_out")["groups",] == len(groups) - 1 > 0
        assert len(of(found, "kafka_consumergroup_group_offset")) <= 2


def test_openmetrics_if_it_is_asked_for(daemon: Daemon) -> None:
    with exporting(daemon.bootstrap) as (url, watcher):
        looked(watcher)
        _, content_type, text = get(f"{url}/metrics", OPENMETRICS)
        assert content_type.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")
        assert "# TYPE coordinatord_group_rebalances counter\n" in text
        assert get(f"{url}/metrics")[1].startswith("text/plain")
        assert get(f"{url}/healthz")[0] == 200


def test_without_a_broker_the_last_values_stay_and_grow_old(tmp_path: Path) -> None:
    with running(tmp_path, {"num.partitions": "1"}) as daemon:
        with KafkaProducer(bootstrap_servers=daemon.bootstrap) as producer:
            producer.send("orders", b"x")
        commit(daemon, "audit", {("orders", 0): 0})
        with exporting(daemon.bootstrap) as (url, watcher):
            looked(watcher)
            daemon.kill()

            def scraped() -> Samples:
                return samples(get(f"{url}/metrics")[2])

            def is_up() -> float:
                return of(scraped(), "coordinatord_exporter_up")[()]

            wait_until(lambda: is_up() == 0, "it to notice")
            young = scraped()
            old: Samples = {}

            def is_older() -> bool:
                old.update(scraped())
                return of(old, "coordinatord_watch_age_seconds")[()] > of(young, "coordinatord_watch_age_seconds")[()]

            wait_until(is_older, "it to grow old")
            lag = {("audit", "0", "orders"): 1}
            assert of(old, "kafka_consumergroup_group_lag") == lag
            assert get(f"{url}/readyz")[0] == 200, "it has read the log to its end once"
            state = json.loads(get(f"{url}/groups/state")[2])
            assert re.search("refused|connect|disconnect", state["trouble"]), state["trouble"]
            daemon.start()
            wait_until(lambda: is_up() == 1, "it to come back", seen=lambda: watcher.why)
            commit(daemon, "audit", {("orders", 0): 1})
            looked(watcher)
            assert of(scraped(), "kafka_consumergroup_group_lag") == {("audit", "0", "orders"): 0}
            assert watcher.cuts == watcher.lost == 0


def test_it_is_ready_when_the_log_was_read() -> None:
    """Of a cluster that nobody can reach nothing is known: no series of groups, and not ready."""
    with exporting("127.0.0.1:1") as (url, watcher):
        wait_until(lambda: watcher.failures > 0, "it to notice")
        status, _, text = get(f"{url}/readyz")
        assert (status, json.loads(text)["state"]) == (503, "loading")
        found = samples(get(f"{url}/metrics")[2])
        assert not [name for name, _ in found if name in SERIES]
        assert of(found, "coordinatord_exporter_up") == {(): 0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_watcher_and_then_the_server(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection to the cluster is closed by the end of a look, not by the end of the process."""
    done: list[str] = []

    class Part:
        url = "http://127.0.0.1:9308/"

        def __init__(self, name: str) -> None:
            self.start = lambda: done.append(f"{name} starts")
            self.stop = lambda: done.append(f"{name} stops")

    class Signalled(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            signal.raise_signal(number)
            done.append("is stopped" if self.is_set() else "waits on")
            return True

    monkeypatch.setattr(exporter, "_watcher", lambda *_: Part("watcher"))
    monkeypatch.setattr(serving, "serve", lambda *_: Part("server"))
    monkeypatch.setattr(exporter.threading, "Event", Signalled)
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        told = CliRunner().invoke(cli, ["exporter", "--bootstrap", "127.0.0.1:1"])
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert told.exit_code == 0, told.output
    assert done == ["watcher starts", "is stopped", "watcher stops", "server stops"]


def test_a_port_in_use_names_the_option_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = CliRunner().invoke(cli, ["exporter", "--bootstrap", "127.0.0.1:1", "--listen", address])
    assert told.exit_code == 2
    assert told.output.endswith(
        f"coordinatord: The address {address} of --listen is in use: another program listens there. Choose another one "
        "with --listen HOST:PORT.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bootstrap", "broker"], "--bootstrap broker: HOST:PORT is wanted."),
        (["--bootstrap", "b:1", "--allow-group", "("], "missing ), unterminated subpattern"),
        (["--bootstrap", "127.0.0.1:1", "--listen", "here"], "--listen must be HOST:PORT"),
        (["--bootstrap", "b:1", "--broker-option", "security_protocol=TLS"], "security_protocol=TLS: one of PLAINTEXT"),
    ],
)
def test_mistakes(arguments: list[str], sentence: str) -> None:
    told = CliRunner().invoke(cli, ["exporter", *arguments])
    assert told.exit_code == 2
    assert sentence in told.output
