"""What a scrape says, as values by series; and what it has to say, by rows that somebody else has told."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
PREFIX = "kafka_consumergroup_group_"


def get(url: str, accept: str | None = None) -> tuple[int, str, str]:
    """(status, content type, body)."""
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def samples(text: str) -> Samples:
    """By name and labels; no two of the same."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def of(found: Samples, name: str) -> dict[tuple[str, ...], float]:
    """The values of one series by its labels' values but for the cluster's, in the order of the labels' names."""
    return {
        tuple(value for label, value in sorted(labels) if label != "cluster_name"): value
        for (each, labels), value in found.items()
        if each == name
    }


def expected(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[tuple[str, ...], float]]:
    """What the series of partitions and groups must be by rows of `coordinatord lag --json`, or of Kafka's tool."""
    rows = list(rows)
    told: dict[str, dict[tuple[str, ...], float]] = {
        name: {} for name in ("offset", "lag", "sum_lag", "max_lag", "topic_sum_lag")
    }
    latest: dict[tuple[str, ...], float] = {}
    for row in rows:
        group, topic, place = row["group_id"], row["topic"], (row["group_id"], str(row["partition"]), row["topic"])
        if row["end_offset"] is not None:
            latest[str(row["partition"]), topic] = row["end_offset"]
        if row["committed_offset"] is not None:
            told["offset"][place] = row["committed_offset"]
        if row["lag"] is not None:
            told["lag"][place] = row["lag"]
            told["sum_lag"][group,] = told["sum_lag"].get((group,), 0) + row["lag"]
            told["max_lag"][group,] = max(told["max_lag"].get((group,), 0), row["lag"])
            told["topic_sum_lag"][group, topic] = told["topic_sum_lag"].get((group, topic), 0) + row["lag"]
    return {f"{PREFIX}{name}": values for name, values in told.items()} | {"kafka_partition_latest_offset": latest}
