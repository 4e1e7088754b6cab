"""The transaction coordinator: which producer owns a transactional id, and how its transactions end.

PURE, in the manner of `coordinatord.group`; `steps.step` is the way in:
state.py        what a transactional id is; its states and their table
events.py       what can happen to it
result.py       what a step wants done
replay.py       the one writer of durable state
steps.py        the decisions
The shell around it:
coordinator.py  all transactional ids of this node: look-up, the log, markers, time-outs, loading
markers.py      commit and abort markers, into topics and into groups' offsets
"""
