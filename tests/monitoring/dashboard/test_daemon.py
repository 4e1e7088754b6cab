"""The daemon's own series and page: each value is what `coordinatord lag` makes of its log, causes are observed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from coordinatord.monitoring.dashboard.series import SERIES
from coordinatord.testing.wire import Wire
from tests.clients.members import polling
from tests.daemon import Daemon, free_port, running
from tests.monitoring.exporter.scraped import Samples, expected, get, of, samples
from tests.monitoring.exporter.test_exporter import commit, told_by_lag
from tests.reference.share_story import ACCEPT, REJECT, RELEASE, Member
from tests.support.waiting import wait_until

WEEK_MS = 7 * 86_400_000
NOT_COUNTED = {"kminion_kafka_consumer_group_offset_commits_total"} | {name for name in SERIES if "share_group" in name}
"""Commits are not counted by group: that would cost each of them. There are no share groups here."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str]]:
    port = free_port()
    settings = {
        "num.partitions": "3", "group.initial.rebalance.delay.ms": "0", "admin.listeners": f"127.0.0.1:{port}",
        "group.min.session.timeout.ms": "1000",
    }  # fmt: skip
    with running(tmp_path_factory.mktemp("daemon"), settings) as daemon:
        with KafkaProducer(bootstrap_servers=daemon.bootstrap) as producer:
            for number in range(30):
                producer.send("orders", b"x", partition=number % 3)
        commit(daemon, "audit", {("orders", 0): 4, ("orders", 1): 10})
        yield daemon, f"http://127.0.0.1:{port}"


def scraped(url: str) -> Samples:
    time.sleep(2.1)  # a look lasts two seconds
    return samples(get(f"{url}/metrics")[2])


def member(daemon: Daemon, group: str, name: str, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        "orders", group_id=group, bootstrap_servers=daemon.bootstrap, enable_auto_commit=False, client_id=name,
        auto_offset_reset="earliest", **settings,
    )  # fmt: skip


def state(url: str, group: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(get(f"{url}/groups/state?group={group}")[2])
    return told


def test_series_causes_and_deadlines(served: tuple[Daemon, str]) -> None:
    daemon, url = served
    one = member(daemon, "billing", "one")
    wait_until(lambda: bool(one.poll(2_000)) or bool(one.assignment()), "an assignment")
    one.commit({TopicPartition("orders", n): OffsetAndMetadata(3 * n, "", -1) for n in range(2)})
    found = scraped(url)
    rows = told_by_lag(daemon)
    assert {(row["group_id"], row["partition"], row["committed_offset"]) for row in rows} >= {("billing", 2, None)}
    for name, values in expected(rows).items():
        assert of(found, name) == values, name
    assert of(found, "kminion_kafka_consumer_group_members") == {("billing",): 1}
    assert of(found, "coordinatord_group_rebalances_total")["new member", "billing"] == 1

    told = state(url, "billing")["group"]
    (life,) = told["lives"]
    assert (life["client_id"], life["host"].lstrip("/"), life["partitions"]) == ("one", "127.0.0.1", 3)
    assert life["last_commit_ms"] == max(row["committed_ms"] for row in told["partitions"] if row["committed_ms"])
    (deadline,) = told["deadlines"]
    assert (deadline["who"], deadline["what"]) == ("one", "expires without a heartbeat")
    assert 0 < deadline["at_ms"] - time.time() * 1000 <= deadline["lasts_ms"] + 5_000
    assert {each["how"] for each in told["rebalances"]} == {"observed"}
    assert {each["owner"]["client"] for each in told["partitions"]} == {"one"}
    assert told["expiries"] == [], "its member reads them"

    one.close()
    found = scraped(url)
    assert of(found, "coordinatord_group_rebalances_total")["member left", "billing"] == 1
    (gone,) = state(url, "billing")["group"]["lives"]
    assert gone == life | {"until_ms": gone["until_ms"], "end": gone["end"]}, "what was known of it stays"
    assert gone["until_ms"] is not None
    assert gone["end"] == "left"
    (line,) = state(url, "billing")["group"]["expiries"]
    assert (line["count"], line["counts_from"]) == (2, "empty")
    assert 0 <= line["expires_ms"] - WEEK_MS - gone["until_ms"] < 5_000
    has = {name.removesuffix("_total") for name, _ in found}
    assert {name for name in SERIES if name.removesuffix("_total") not in has} == NOT_COUNTED
    assert of(found, "kminion_kafka_consumer_group_members") == {("billing",): 0}
    assert (
        of(found, "kafka_consumergroup_group_sum_lag")["billing",]
        == expected(told_by_lag(daemon))["kafka_consumergroup_group_sum_lag"]["billing",]
    )


def test_a_crash_loop_and_a_storm_are_urgent(served: tuple[Daemon, str]) -> None:
    """A client that comes and goes has read all there is, and its group comes first all the same."""
    daemon, url = served
    steady = member(daemon, "looping", "steady", heartbeat_interval_ms=200)
    wait_until(lambda: bool(steady.poll(2_000)) or bool(steady.assignment()), "an assignment")
    steady.commit({TopicPartition("orders", n): OffsetAndMetadata(10, "", -1) for n in range(3)})
    with polling(steady):
        for _ in range(4):
            worker = member(daemon, "looping", "worker", heartbeat_interval_ms=200)
            wait_until(lambda worker=worker: bool(worker.poll(2_000)) or bool(worker.assignment()), "a share")
            worker.close()
            wait_until(lambda: len(steady.assignment()) == 3, "all again")
    found = scraped(url)
    assert of(found, "coordinatord_group_storm")["looping",] == 1
    assert of(found, "coordinatord_group_crash_loops")["looping",] == 1
    assert of(found, "coordinatord_group_status")["looping", "crash loop"] == 1
    causes = {
        key[0]: value for key, value in of(found, "coordinatord_group_rebalances_total").items() if key[1] == "looping"
    }
    assert (causes["new member"], causes["member left"]) == (5, 4)
    told = state(url, "looping")
    assert (told["list"][0]["id"], told["list"][0]["status"]) == ("looping", "crash loop")
    assert told["list"][0]["why"].startswith("worker on ")
    steady.close()


def test_the_index_and_the_page(served: tuple[Daemon, str]) -> None:
    url = served[1]
    assert '<a href="/groups/">' in get(f"{url}/")[2]
    status, content_type, text = get(f"{url}/groups/")
    assert (status, content_type) == (200, "text/html; charset=utf-8")
    assert 'src="app.js"' in text
    assert get(f"{url}/groups/app.js")[1].startswith("text/javascript")
    told = json.loads(get(f"{url}/groups/overview")[2])
    assert "audit" in {row["id"] for row in told["rows"]}
    found = json.loads(get(f"{url}/groups/group?name=audit")[2])["found"]
    assert {(each["topic"], each["partition"], each["committed_offset"]) for each in found["partitions"]} >= {
        ("orders", 0, 4)
    }


def test_nothing_of_it_is_loaded_by_a_start(tmp_path: Path) -> None:
    """A daemon without an admin port watches nothing."""
    import subprocess
    import sys

    code = (
        "import sys, coordinatord.server.daemon.daemon\n"
        "print(*(m for m in sys.modules if 'monitoring.dashboard' in m or 'prom' in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_the_window_of_a_share_group_has_what_members_have_acquired(served: tuple[Daemon, str]) -> None:
    """The last test: its group has series that the daemon had not before."""
    daemon, url = served
    wire = Wire(lambda: ("127.0.0.1", daemon.port))
    wire.create_topic("jobs", 1, {})
    wire.put("jobs", [(None, b"%d" % number, ()) for number in range(10)], 0, int(time.time() * 1000))
    wire.configure_group("pickers", {"share.auto.offset.reset": "earliest"})
    picker = Member(daemon.port, "pickers", "picker", "jobs").until_assigned(1)
    picker.fetch(6, [(0, 5, 1)])
    for first, last, type_ in ((0, 1, ACCEPT), (2, 2, RELEASE), (4, 4, REJECT)):
        picker.acknowledge(first, last, type_)

    def window() -> list[tuple[Any, ...]]:
        names = ("topic", "partition", "start_offset", "acquired", "done", "archived", "available", "at_offset")
        group = state(url, "pickers")["group"]
        return [] if group is None else [tuple(row[name] for name in names) for row in group["window"]]

    wait_until(lambda: window() == [("jobs", 0, 2, 2, 1, 1, 1, 2)], "3 and 5 to be acquired", seen=window)
    (row,) = state(url, "pickers")["group"]["partitions"]
    assert (row["committed_offset"], row["end_offset"], row["lag"], row["status"]) == (2, 10, 7, "behind")
    found = scraped(url)
    place = ("pickers", "0", "jobs")
    assert of(found, "kafka_consumergroup_group_lag")[place] == 7
    assert of(found, "coordinatord_share_group_done_records")[place] == 1
    assert ("pickers", "share") in of(found, "coordinatord_group_info")
    picker.leave()
    wait_until(lambda: [each[3] for each in window()] == [0], "the records of the member that left", seen=window)
    wire.close()
