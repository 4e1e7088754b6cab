"""ApiVersions: the offered ranges, and in v5 the cluster and node that a client means (KIP-1242)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.base.config import Settings
from coordinatord.server.daemon.handlers import NOT_SERVED, features
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.router import Router
from kafka_wire import registry
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.releases import ranges_of
from tests.support.shell import Turns, Wire, make_door, request_frame


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
    served = ApiVersions({*ApiKey}.difference(NOT_SERVED), {})
    offered = {str(each.api_key): [each.min_version, each.max_version] for each in served.offered}
    assert offered == {key: kafka[key] for key in offered}
    assert offered[str(int(ApiKey.PRODUCE))][0] < registry.versions_of(ApiKey.PRODUCE).first


GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-api-versions.json"
TELEMETRY = {71, 72}
"""APIs that Kafka offers only with a telemetry receiver."""


@pytest.mark.parametrize("version", ["4.3.0", "4.4.0"])
def test_the_table_of_a_release_is_what_its_broker_offers(version: str) -> None:
    recorded = {int(key): tuple(versions) for key, versions in json.loads(GOLDEN.read_text())[version].items()}
    table = {key: versions for key, versions in ranges_of(version[:3]).items() if key not in TELEMETRY}
    assert {**table, 0: (0, table[0][1])} == recorded  # KAFKA-18659: version 0 of Produce is offered, not served


def test_an_older_release_offers_its_versions_of_the_served_apis() -> None:
    served = ApiVersions(map(int, ApiKey), {}, release="3.9")
    offered = {ApiKey(each.api_key): (each.min_version, each.max_version) for each in served.offered}
    assert offered[ApiKey.TXN_OFFSET_COMMIT] == (0, 4)
    assert offered[ApiKey.OFFSET_COMMIT] == (2, 9)
    assert offered[ApiKey.CONSUMER_GROUP_HEARTBEAT] == (0, 0)
    assert offered[ApiKey.PRODUCE] == (0, 11)


def test_a_later_version_of_api_versions_than_the_release_has_is_unsupported() -> None:
    turns = Turns()
    api_versions = ApiVersions([], {}, release="3.9")
    door = make_door({}, turns)
    door.router = Router({ApiKey.API_VERSIONS: api_versions.answer}, door.metrics, release="3.9")
    client = Wire(door, turns)
    client.sent[7] = registry.codec(ApiKey.API_VERSIONS, 0)
    client.connection.data_received(request_frame(ApiVersionsRequest("a", "1"), 5, 7))
    client.connection.data_received(client.frame(ApiVersionsRequest("a", "1"), 4))
    turns.run()
    (_, first), (_, second) = client.answers
    assert (first.error_code, second.error_code) == (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE)
    assert [(each.api_key, each.max_version) for each in first.api_keys] == [(ApiKey.API_VERSIONS, 4)]


@pytest.mark.parametrize(
    ("release", "levels"),
    [("3.9", {}), ("4.0", {"group.version": 1, "transaction.version": 2})],
)
def test_a_release_offers_its_features(release: str, levels: dict[str, int]) -> None:
    assert features(Settings(advertised_kafka_version=release)) == levels
