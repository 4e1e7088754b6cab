"""WriteTxnMarkers: write commit or abort markers, for a transaction coordinator.

v1 flexible · v2 transaction version
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int8, int16, int32, int64, message, string


@message()
class WritableTxnMarkerTopic:
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+")


@message()
class WritableTxnMarker:
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+")


@message(versions="1-2", flexible="1+", api_key=27)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


@message()
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@message()
class WritableTxnMarkerTopicResult:
    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+")


@message()
class WritableTxnMarkerResult:
    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


@message(versions="1-2", flexible="1+", api_key=27)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")


def error_response(request: WriteTxnMarkersRequest, version: int, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Return the response with the error `code`."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name, [WritableTxnMarkerPartitionResult(each, code) for each in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
