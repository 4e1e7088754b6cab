"""Computation of a long assignment in slices, so that other groups are served in between.

Kafka runs its assignor within the step of a heartbeat. coordinatord does so if one slice is enough, which holds for
some hundred partitions and members (assignors/slices.py). Otherwise the heartbeat that finds the assignment due starts
the computation, and is parked; a timer of the group resumes the assignor until it has finished. Meanwhile the group's
other requests are served with the previous target, as they are within `assignment.interval.ms`, and members may join
and leave: their changes raise the group epoch, so that another assignment follows. The last step logs the target, for
the epoch in which the computation started, and sends the response to the heartbeat.

No part of the computation is durable before that. After a restart the next heartbeat starts it again.
"""

from __future__ import annotations

from coordinatord.coordination.group.consumer.assignors.spec import PartitionAssignorError
from coordinatord.coordination.group.consumer.group_epoch import Before, begin, log_target
from coordinatord.coordination.group.consumer.heartbeat import answer
from coordinatord.coordination.group.consumer.sessions import next_slice
from coordinatord.coordination.group.consumer.state import Assigning, ConsumerGroup, GroupEnvironment
from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.state import Group
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_wire.errors import ErrorCode


def continue_assignment(group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, now_ms: int) -> Result:
    """Continue the computation for a few milliseconds."""
    assigning = consumer.assigning
    if assigning is None:
        return NOTHING
    if assigning.is_void and consumer.members:
        assigning = _begun_anew(consumer, surroundings, assigning)
    result = Result()
    try:
        next(assigning.slices)
    except StopIteration as finished:
        consumer.assigning = None
        log_target(group, consumer, surroundings.topics, assigning, finished.value, now_ms, result)
        if assigning.heard is not None:
            reply = answer(group, consumer, surroundings, assigning.heard, now_ms, result)
            result.replies.append((assigning.heard.event.reply_to, reply))
    except PartitionAssignorError as error:
        consumer.assigning = None
        text = f"Failed to compute a new target assignment for epoch {assigning.epoch}: {error}"
        if assigning.heard is not None:
            reply = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=text)
            result.replies.append((assigning.heard.event.reply_to, reply))
    else:
        result.timers.append(next_slice(group.group_id, now_ms))
    return result


def _begun_anew(consumer: ConsumerGroup, surroundings: GroupEnvironment, void: Assigning) -> Assigning:
    """Start a new computation for the current members: a static member has got another id since the last start."""
    heard = void.heard
    member_id = next(iter(consumer.members))
    if heard is not None and heard.member_id in consumer.members:
        member_id = heard.member_id
    begun = consumer.assigning = begin(consumer, surroundings, Before.of(consumer, None, joins=False), member_id)
    begun.heard = heard
    return begun
