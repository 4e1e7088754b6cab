"""The transaction coordinator: the producer that owns a transactional id, and the end of its transactions.

Pure, like `coordinatord.coordination.group`; `steps.step` is the entry point:
state.py   a transactional id; its states and their table
events.py  the events
result.py  the result of a step
replay.py  the only functions that write durable state
steps.py   the decisions
The shell around it:
coordinator.py          all transactional ids of this node: look-up, the log, markers, timeouts, loading
markers.py              writes commit and abort markers to topics and to groups' offsets
remote_transactions.py  transactions that span nodes
"""
