"""What `coordinatord lag`, the exporter, `pipeline run`, its report and the alerts say of a cluster of groups on Apache
Kafka: what is written down in cluster_of_groups.py, and nothing worse of a healthy group at any time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from coordinatord.base.config.address import Listener
from coordinatord.base.observe.health import Health
from coordinatord.cli import cli
from coordinatord.monitoring.analysis.severity import URGENT
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.exporter.reading import Reading
from coordinatord.monitoring.exporter.serving import serve
from coordinatord.monitoring.exporter.watcher import Watcher
from tests.daemon import free_port
from tests.monitoring.exporter.cluster_of_groups import (
    ALERTS,
    GROUPS,
    HEALTHY,
    OTHERS,
    PARTITIONS,
    WAIT_S,
    WINDOW_S,
    cluster_of_groups,
    going_on,
    produce,
)
from tests.monitoring.exporter.scraped import get, of, samples
from tests.reference.broker import EARLIER_VERSION, KAFKA_VERSION, KafkaBroker, kafka_libs

pytestmark = [pytest.mark.reference, pytest.mark.full, pytest.mark.timeout(5400)]

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "rules.yml"
SOON_S, LATER_S = 60, 660
"""How long after the first run of the pipeline the second one and the third one begin."""
SCRAPE = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: exporter
    static_configs: [{{targets: ["{target}"]}}]
"""

Said = dict[str, str]
"""By group."""
OfPlaces = dict[tuple[str, str], str]
"""By group and topic."""


@contextmanager
def watched(broker: KafkaBroker) -> Iterator[str]:
    """The exporter's address."""
    reading = Reading(Choice(), Choice(deny=("__.*",)), rules=Rules(window_ms=WINDOW_S * 1000))
    health = Health()
    watcher = Watcher(broker.bootstrap, {}, reading, health, interval_s=0.5)
    server = serve(Listener("HTTP", "127.0.0.1", 0), watcher, health, "test")
    watcher.start()
    try:
        yield server.url.rstrip("/")
    finally:
        watcher.stop()
        server.stop()


@contextmanager
def alerted(exporter: str, directory: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the exporter and evaluates the rules of deploy/."""
    if shutil.which("prometheus") is None:
        assert os.environ.get("CI") != "true", "needs prometheus (apt-get install prometheus)"
        pytest.skip("needs prometheus (apt-get install prometheus)")
    directory.mkdir()
    config = directory / "prometheus.yml"
    config.write_text(SCRAPE.format(rules=RULES, target=exporter.removeprefix("http://")))
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(60)


def has_fired(prometheus: str) -> list[tuple[str, str]]:
    """Each alert that has fired at any time, with its group; of each series of labels one."""
    query = urlencode({"query": 'max_over_time(ALERTS{alertstate="firing"}[2h])'})
    status, _type, text = get(f"{prometheus}/api/v1/query?{query}")
    assert status == 200, text
    metrics = [each["metric"] for each in json.loads(text)["data"]["result"]]
    return sorted((each["alertname"], each.get("group", "")) for each in metrics)


def said_by_exporter(exporter: str) -> Said:
    found = of(samples(get(f"{exporter}/metrics")[2]), "coordinatord_group_status")
    return {key[0]: key[1] for key, value in found.items() if value == 1}


def said_by_lag(*where: str) -> tuple[list[dict[str, Any]], str]:
    """Its rows, and its list of groups."""
    rows, text = (
        CliRunner().invoke(cli, ["lag", *where, "--window", str(WINDOW_S), *more]) for more in (["--json"], [])
    )
    assert (rows.exit_code, text.exit_code) == (0, 0), rows.output + text.output
    is_live = "--bootstrap" in where
    assert ("away-0 has no leader now: what is unread there is not known" in rows.stderr) is is_live, rows.stderr
    return json.loads(rows.stdout), text.stdout


def run_pipeline(broker: KafkaBroker, out: Path) -> str:
    """What a run prints."""
    command = [sys.executable, "-m", "coordinatord", "pipeline", "run", "--bootstrap", broker.bootstrap]
    command += ["--out", str(out), "--window", str(WINDOW_S), "--conf", "spark.driver.memory=1g"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_right(status: str | None, expected: str) -> bool:
    return status == expected if expected != HEALTHY else status is not None and status not in URGENT


def wrong(said: Mapping[Any, str], right: Mapping[Any, str]) -> dict[Any, tuple[str | None, str]]:
    """(what is said, what is right) where they differ; for what is not written down nobody may be needed."""
    found = {key: (said.get(key), status) for key, status in right.items() if not is_right(said.get(key), status)}
    return found | {key: (said[key], HEALTHY) for key in said.keys() - right.keys() if said[key] in URGENT}


def of_places(right: Mapping[str, Mapping[str, str]]) -> OfPlaces:
    return {(group, topic): status for group, of_topics in right.items() for topic, status in of_topics.items()}


def check_exporter(broker: KafkaBroker, exporter: str) -> None:
    """Wait until the exporter says what is right of all, and nothing worse of any before."""
    seen: dict[str, set[str]] = {}
    deadline = time.monotonic() + WAIT_S
    looks = 0
    while True:
        if looks % 40 == 0:
            produce(broker, "seldom", 1)
        said = said_by_exporter(exporter)
        for group, status in said.items():
            seen.setdefault(group, set()).add(status)
        if not (found := wrong(said, GROUPS)):
            break
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
        looks += 1
    for group, words in seen.items():
        assert GROUPS.get(group) in URGENT or not words & URGENT, f"{group}: {words}"


def check_text(text: str, right: Said) -> None:
    urgent = sum(status in URGENT for status in right.values())
    assert re.search(rf"\d+ groups, {urgent} of them need attention", text), text


def check_lag(broker: KafkaBroker, *where: str, knows_configs: bool) -> None:
    """`knows_configs`: a directory does not tell retention.ms, nor the names of transactions. That records came since a
    group lost its members it does not tell if the last entry of a time index is of the last batch, and the one before
    it is older than that: the next record tells it.
    """
    right = of_places(PARTITIONS)
    groups = dict(GROUPS)
    if not knows_configs:
        right["creeps", "short"] = groups["creeps"] = HEALTHY
    for _ in range(1 if knows_configs else 2):
        produce(broker, "seldom", 1)
        rows, text = said_by_lag(*where)
        amiss = wrong({(row["group_id"], row["topic"]): row["status"] for row in rows}, right)
        if not amiss:
            break
        time.sleep(2)
    assert not amiss, rows
    check_text(text, groups)
    found = {(row["group_id"], row["topic"]): row for row in rows}
    assert found["robbed", "scarce"]["lost_records"] == 80
    assert found["marker", "exact"]["lag"] == found["aborted", "undone"]["lag"] == 0
    why = found["waiting", "open"]["why"]
    assert "transaction of producer" in why
    assert ("(open-0)" in why) is knows_configs
    for group, status in groups.items():
        if status in ("crash loop", "members expired"):
            [line] = [each for each in text.splitlines() if each.startswith(f"{group}  ")]
            assert status in line


def check_pipeline(broker: KafkaBroker, out: Path) -> None:
    """One more run, what it prints, its tables, and its report."""
    from pyarrow import dataset

    from coordinatord.monitoring.pipeline.report.read import read_groups

    produce(broker, "seldom", 1)
    text = run_pipeline(broker, out)
    _at_ms, groups, _members = read_groups(out)
    assert not wrong({row.group_id: row.status for row in groups}, GROUPS), [(row.group_id, row.why) for row in groups]
    rows = dataset.dataset(str(out / "tables" / "status"), format="parquet", partitioning="hive").to_table().to_pylist()
    assert not wrong({(row["group_id"], row["topic"]): row["status"] for row in rows}, of_places(PARTITIONS)), rows
    check_text(text, GROUPS)
    page = out.with_suffix(".html")
    told = CliRunner().invoke(cli, ["pipeline", "report", "--out", str(out), "--html", str(page)])
    assert told.exit_code == 0, told.output
    shown = page.read_text()  # the groups are data of the page's program
    for group, status in GROUPS.items():
        if status in URGENT:
            assert f'"id":"{group}","status":"{status}"' in shown, group


def check_outage(broker: KafkaBroker, exporter: str) -> None:
    """Of a cluster that cannot be read the last that was known stays, and ages."""
    before = said_by_exporter(exporter)
    broker.stop(kill=True)
    deadline = time.monotonic() + WAIT_S
    while True:
        found = samples(get(f"{exporter}/metrics")[2])
        (age_s,) = of(found, "coordinatord_watch_age_seconds").values()
        (is_up,) = of(found, "coordinatord_exporter_up").values()
        if age_s > WINDOW_S and not is_up:
            break
        assert time.monotonic() < deadline, (age_s, is_up)
        time.sleep(0.5)
    assert said_by_exporter(exporter).keys() == before.keys()
    assert not wrong(said_by_exporter(exporter), GROUPS)


@pytest.mark.parametrize("version", [EARLIER_VERSION, KAFKA_VERSION])
def test_each_verdict_is_right(version: str, tmp_path: Path) -> None:
    libs = kafka_libs(version)
    with cluster_of_groups(libs, tmp_path) as broker, going_on(broker), watched(broker) as exporter:
        check_exporter(broker, exporter)
        check_lag(broker, "--bootstrap", broker.bootstrap, knows_configs=True)
        check_lag(broker, "--source", str(broker.data_dir), knows_configs=False)
        for group, kind in OTHERS.items():
            told = CliRunner().invoke(cli, ["groups", "describe", "--bootstrap", broker.bootstrap, group])
            assert (told.exit_code, f"({kind} protocol" in told.output) == (0, True), told.output
            for command in (["lag"], ["groups", "why"]):
                told = CliRunner().invoke(cli, [*command, "--bootstrap", broker.bootstrap, group])
                assert told.exit_code == (1 if kind == "streams" else 0), told.output
                assert f"{kind} group" in told.output.lower() or "no offsets" in told.output


@pytest.mark.spark
def test_each_verdict_of_the_pipeline_and_each_alert_is_right(tmp_path: Path) -> None:
    libs = kafka_libs()
    with (
        cluster_of_groups(libs, tmp_path) as broker,
        watched(broker) as exporter,
        alerted(exporter, tmp_path / "prometheus") as prometheus,
    ):
        with going_on(broker):
            check_exporter(broker, exporter)
            soon, later = tmp_path / "soon", tmp_path / "later"
            check_pipeline(broker, soon)
            began_s = time.monotonic()
            shutil.copytree(soon, later)
            for out, after_s in ((soon, SOON_S), (later, LATER_S)):
                time.sleep(max(0.0, began_s + after_s - time.monotonic()))
                check_pipeline(broker, out)
            assert has_fired(prometheus) == sorted(ALERTS)
        check_outage(broker, exporter)
