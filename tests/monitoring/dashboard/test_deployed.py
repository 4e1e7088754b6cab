"""The dashboard and the alert rules name series and labels that exist; promtool agrees where it can be had."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinatord.monitoring.analysis.severity import ORDER, URGENT
from coordinatord.monitoring.dashboard.series import SERIES
from coordinatord.monitoring.exporter.serving import EXPORTER

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
LABELS = {name: {*labels, "job", "instance"} for name, (labels, _) in SERIES.items()} | {
    name: {"cluster_name", "job", "instance"} for name in EXPORTER
}
NAME = re.compile(r"\b((?:kafka|kminion|coordinatord)_[a-z_]+)(?:\{([^}]*)\})?")


def dashboard() -> dict[str, Any]:
    told: dict[str, Any] = json.loads((DEPLOY / "grafana" / "consumer-groups.json").read_text())
    return told


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """(where, expression), all of them."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_each_expression_names_series_that_exist(where: str, expression: str) -> None:
    found = NAME.findall(expression.replace("cluster_name", "clustername"))
    assert found, where
    for name, matchers in found:
        assert name in LABELS, f"{where}: {name}"
        labels = set(re.findall(r"(\w+)(?:=~|!=|!~|=)", matchers)) - {"clustername"}
        assert labels <= LABELS[name], f"{where}: {labels - LABELS[name]}"
    for by in re.findall(r"by \(([^)]*)\)", expression):
        assert set(by.split(", ")) <= set.union(*(LABELS[name] for name, _ in found)), where


def test_no_status_is_misspelt() -> None:
    for where, expression in expressions():
        for words in re.findall(r'status=~?"([^"]*)"', expression):
            assert set(words.split("|")) <= set(ORDER), where
    urgent = next(expression for where, expression in expressions() if where == "Need somebody")
    assert set(re.findall(r'status=~"([^"]*)"', urgent)[0].split("|")) == URGENT


def test_legends_and_summaries_name_labels() -> None:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            labels = set.union(*(LABELS[name] for name, _ in NAME.findall(target["expr"])))
            more = set(re.findall(r'label_replace\(.*?, "(\w+)"', target["expr"]))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels | more, panel["title"]
    for rule in rules():
        labels = set.union(*(LABELS[name] for name, _ in NAME.findall(rule["expr"])))
        text = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels, rule["alert"]


def test_each_status_that_needs_somebody_has_an_alert() -> None:
    text = " ".join(rule["expr"] for rule in rules())
    for status in URGENT:
        assert text.count(f'status="{status}"') == 1, status


def test_an_incident_fires_one_alert() -> None:
    """A group has one status: an alert about a group is bound to one, and two alerts share none."""
    taken: list[str] = []
    for rule in rules():
        if rule["alert"].startswith("ConsumerGroup"):
            taken += "|".join(re.findall(r'coordinatord_group_status{status=~?"([^"]*)"', rule["expr"])).split("|")
    assert len(taken) == len(set(taken))
    assert set(taken) == URGENT | {"behind", "catching"}


def test_alerts_and_panels_about_groups_link_to_the_groups_page() -> None:
    for rule in rules():
        if rule["alert"].startswith("ConsumerGroup"):
            expected = "http://{{ $labels.instance }}/groups/#/group/{{ $labels.group }}"
            assert rule["annotations"]["page"] == expected, rule["alert"]
    for panel in dashboard()["panels"]:
        if any("{{group" in target["legendFormat"] for target in panel["targets"]):
            (link,) = panel["fieldConfig"]["defaults"]["links"]
            assert link["url"].startswith("${page}#/group/"), panel["title"]
    assert "page" in {variable["name"] for variable in dashboard()["templating"]["list"]}


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


@pytest.mark.clients
@pytest.mark.skipif(
    shutil.which("promtool") is None and os.environ.get("CI") != "true",
    reason="needs promtool (apt-get install prometheus)",
)
@pytest.mark.parametrize(
    "arguments",
    [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"], ["check", "config", "prometheus.yml"]],
)
def test_promtool(arguments: list[str]) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=RULES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
