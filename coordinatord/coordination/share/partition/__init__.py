"""Share partitions (KIP-932): which records of a partition a share group has in delivery. Pure.

    step(partition, event, now_ms) -> Result

state.py        the window between start offset and end offset, its batches and the state of their records; start here
events.py       what can happen to a share partition
result.py       what a step returns: acquired records, state to persist, errors
step.py         picks the function for an event; initialization, completed writes
window.py       the next offset to read, and the moves of the start offset
acquire.py      gives records to a member
new_batches.py  the part of it for records that no member had before
throttle.py     delivers suspected poison records in small numbers
acknowledge.py  acknowledgements of a member
writes.py       changes in progress: kept or reverted when their write ends; the end of dead letters
held.py         what members have acquired
release.py      ends acquisitions: a session has ended, a lock has timed out

The rules are those of Kafka's SharePartition, InFlightBatch and InFlightState. A batch has one state until its records
differ; from then on it has one for each run of equal neighbours (Kafka has one for each record). An acknowledgement
changes the state at once, but the change can be rolled back until it is persisted: until then the record can neither be
acquired nor acknowledged again.

In a group with a dead-letter queue (KIP-1191) a record that is rejected, or at its delivery limit, is ARCHIVING. When
that is persisted, the result has its dead letter for the shell; LettersDone makes it ARCHIVED. After a restart in
between the letter is written again.
"""
