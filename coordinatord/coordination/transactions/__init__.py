"""The transaction coordinator: which producer owns a transactional id, and how its transactions end.

Pure, like `coordinatord.coordination.group`; `steps.step` is the entry point:
state.py   a transactional id; its states and their table
events.py  the events
result.py  what a step asks of the shell
replay.py  the only writer of durable state
steps.py   the decisions
The shell around it:
coordinator.py  all transactional ids of this node: look-up, the log, markers, time-outs, loading
markers.py      writes commit and abort markers to topics and to groups' offsets
"""
