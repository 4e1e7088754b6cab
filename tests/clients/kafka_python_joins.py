"""A defect of kafka-python 3.0's consumer that tests would meet now and then; mended in their processes.

A leader that joins before it knows its topic's partitions assigns nothing, and joins again when it knows them. If the
poll of that join ends between the answers to JoinGroup and to SyncGroup, nothing tells the next poll that a join is
under way: `need_rejoin` compares what the leader has just assigned with what there is, and they are the same. The
assignment is never taken up, heartbeats stay off, and the consumer is silent for ever. (kafka-python 2 asked
`_rejoin_incomplete`, too.)

Seen three times in 922 consumers that polled for a second each while they or the daemon were stopped for 0.5 to 2.5 s
at random; never in 1,336 with this, nor in 1,400 that had called `partitions_for_topic` first.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka.coordinator.consumer import ConsumerCoordinator

_own: Callable[[ConsumerCoordinator], object] = ConsumerCoordinator.need_rejoin


def finish_joins() -> None:
    """From now on the consumers of this process go on with a join that is under way."""

    def need_rejoin(self: ConsumerCoordinator) -> bool:
        return self._join_task is not None or bool(_own(self))

    ConsumerCoordinator.need_rejoin = need_rejoin
