"""ApiVersions: the requests, and their versions, that this broker serves.

v1 throttle time · v3 flexible, client software name and features · v4 zero minimum of a feature (KIP-1022) ·
v5 cluster and node that the client means (KIP-1242, Kafka 4.4) ·
the response's header stays v0 in all versions, so a client can read the response to an unknown version
"""

from __future__ import annotations

from kafka_wire.schema import array, boolean, int16, int32, int64, message, string


@message(versions="0-5", flexible="3+", api_key=18)
class ApiVersionsRequest:
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = int32("5+", default=-1)


@message()
class ApiVersion:
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


@message()
class SupportedFeatureKey:
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


@message()
class FinalizedFeatureKey:
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@message(versions="0-5", flexible="3+", api_key=18)
class ApiVersionsResponse:
    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tagged="3+", tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tagged="3+", tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tagged="3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tagged="3+", tag=3)
