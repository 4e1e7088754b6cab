"""The state machine of a group: pure functions over plain data. `classic/step.py` explains the classic protocol.

`step(group, event, now_ms)` (classic/step.py) handles one event. A step changes `group` and returns a `Result`
(result.py); the step itself does no I/O, sets no timer and sends no response. The caller of a step must:

1. Load: apply every record of the group with `replay`, and every transaction marker with `replay_marker`, in log
   order; then call `restore` once and handle its result like the result of a step.
2. Call `step` with one event at a time, with a `now_ms` that never decreases. A step that raises has changed nothing.
   Do not change the result: some results are shared constants.
3. Append `result.records` or `result.offsets` to the log before all else, in one append, with `result.producer` if it
   is set. Do not replay these records: the step has applied them to the group.
4. Send `result.reply` to the event's own request, and each of `result.replies` to its parked request, but not before
   the last record of the group, of this step or an earlier one, is durable. If the log fails, send
   COORDINATOR_NOT_AVAILABLE instead. A `reply` of None means that the request is parked or gets no response.
5. Set and cancel `result.timers`, in their order: pass `TimedOut(key)` to `step` at or after the deadline, once all
   requests that arrived before the deadline have been handled.
6. Release `result.dropped`: these parked requests never get a response.
7. Remove the group if `group.exists` is False after the step.

`transitions`, `changes`, `trigger` and `ended` are for logging, metrics and the rebalance ledger. The loop is:

    for group_id, event, request in events():  # `request` is None for a timer
        group = groups.setdefault(group_id, Group(group_id, settings, new_id))
        result = step(group, event, now_ms())  # duty 2
        if records := result.all_records(group_id):
            last[group_id] = log.append(records, result.producer)  # 3
        for reply_to, response in [(request, result.reply), *result.replies]:
            log.when_durable(last.get(group_id), send, reply_to, response)  # 4; sends nothing for None
        timers.apply(result.timers)  # 5
        abandon(result.dropped)  # 6
        if not group.exists:
            del groups[group_id]  # 7

coordination/runtime/actors.py and coordination/service/groups.py are the real caller. One exception to duty 4 is there:
the response to a heartbeat waits only for records about members, not for committed offsets.

state.py      a group: its members, offsets and settings
states.py     the states of a group and their transitions
events.py     the events that a group handles
result.py     the result of a step
replay.py     the only functions that write durable state
terminate.py  the end of a group
describe.py   the responses to DescribeGroups and ListGroups
classic/      the classic protocol: join, sync, heartbeat, leave
consumer/     the consumer protocol of KIP-848: assignors
share/        share groups (KIP-932)
offsets/      committed offsets, of members, of other clients and of transactions
"""
