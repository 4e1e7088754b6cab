"""ApiVersions: the offered ranges, and in v5 the cluster and node that a client means (KIP-1242)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.transport.net.api_versions import ApiVersions
from kafka_wire import registry
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode


def answered(request: ApiVersionsRequest, version: int) -> Any:
    served = ApiVersions([ApiKey.HEARTBEAT], {}, ("ours", 3))
    return served.answer(SimpleNamespace(api_version=version), request)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("ours", 3, ErrorCode.NONE),
        ("other", 3, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("ours", 4, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("ours", -1, ErrorCode.INVALID_REQUEST),
        (None, 3, ErrorCode.INVALID_REQUEST),
    ],
)
def test_who_means_another_node_has_to_look_for_it(cluster_id: str | None, node_id: int, error: ErrorCode) -> None:
    answer = answered(ApiVersionsRequest("a", "1", cluster_id, node_id), 5)
    assert answer.error_code == error
    assert bool(answer.api_keys) == (error == ErrorCode.NONE)


def test_earlier_versions_say_nothing_of_it() -> None:
    assert answered(ApiVersionsRequest("a", "1"), 4).error_code == ErrorCode.NONE


def test_each_api_is_offered_in_the_versions_that_kafka_offers() -> None:
    """Recorded from Kafka 4.4.0. Clients choose features by the ranges, also by first versions that are not served."""
    kafka = json.loads((Path(__file__).parents[1] / "golden" / "kafka-api-versions.json").read_text())["4.4.0"]
    served = ApiVersions(map(int, ApiKey), {})
    offered = {str(each.api_key): [each.min_version, each.max_version] for each in served.offered}
    assert offered == {key: kafka[key] for key in offered}
    assert offered[str(int(ApiKey.PRODUCE))][0] < registry.versions_of(ApiKey.PRODUCE).first
