"""DescribeLogDirs v1-v5, ElectLeaders v0-v2, ListPartitionReassignments v0: replicas, leaders, reassignments.

Every partition has one replica, on the node that leads it: no election is ever needed, and no replica moves.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.topics.catalogue import Catalogue
from kafka_wire.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafka_wire.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafka_wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

PREFERRED, UNCLEAN = 0, 1
"""Values of `election_type`."""

VOLUME_SIZE_SINCE = 4
"""First version of DescribeLogDirs that returns the volume's size."""


class Replicas:
    """Handlers of the APIs for replicas."""

    def __init__(self, catalogue: Catalogue, data: DataDirectory) -> None:
        self.catalogue = catalogue
        self._data = data
        self._log_dir = os.path.abspath(data.path)

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs,
            ApiKey.ELECT_LEADERS: self.elect_leaders,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_partition_reassignments,
        }

    def describe_log_dirs(self, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Handle DescribeLogDirs: the data directory with this node's partitions, all or those of the request that are
        here.
        """
        self.catalogue.refresh()
        result = DescribeLogDirsResult(0, self._log_dir, self._described(request))
        if context.api_version >= VOLUME_SIZE_SINCE:
            try:
                result.total_bytes, result.usable_bytes = self._data.disk.space(self._data.path)
            except OSError:
                result = DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, self._log_dir)
        return DescribeLogDirsResponse(results=[result])

    def _described(self, request: DescribeLogDirsRequest) -> list[DescribeLogDirsTopic]:
        wanted: defaultdict[str, set[int]] | None = None
        if request.topics is not None:
            wanted = defaultdict(set)
            for asked in request.topics:
                wanted[asked.topic].update(asked.partitions)
        topics = []
        for topic in self.catalogue:
            chosen = wanted[topic.name] if wanted is not None else None
            partitions = [
                DescribeLogDirsPartition(index, partition.log.size_bytes)
                for index, partition in enumerate(topic.partitions)
                if partition.is_here and (chosen is None or index in chosen)
            ]
            if partitions:
                topics.append(DescribeLogDirsTopic(topic.name, partitions))
        return topics

    def elect_leaders(self, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Handle ElectLeaders. Every partition already has its preferred leader. The response to a request for all
        topics lists no partition.
        """
        self.catalogue.refresh()
        if request.topic_partitions is None:
            results = [ReplicaElectionResult(topic.name) for topic in self.catalogue]
            return ElectLeadersResponse(replica_election_results=results)
        kind = request.election_type
        if kind not in (PREFERRED, UNCLEAN):
            error, message = ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}"
            refused = [
                ReplicaElectionResult(asked.topic, [PartitionResult(each, error, message) for each in asked.partitions])
                for asked in request.topic_partitions
            ]
            return ElectLeadersResponse(error_code=error, replica_election_results=refused)
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(asked.topic, [self._elected(asked.topic, each) for each in asked.partitions])
                for asked in request.topic_partitions
            ]
        )

    def _elected(self, name: str, index: int) -> PartitionResult:
        if name not in self.catalogue.by_name:
            return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        if self.catalogue.partition(name, index) is None:
            return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        message = "Leader election not needed for topic partition."
        return PartitionResult(index, ErrorCode.ELECTION_NOT_NEEDED, message)

    def list_partition_reassignments(
        self, _context: RequestContext, _request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """Handle ListPartitionReassignments. The list is always empty: there are no reassignments."""
        return ListPartitionReassignmentsResponse(error_message=None)
