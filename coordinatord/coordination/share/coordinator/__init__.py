"""The share coordinator: the state of share partitions in `__share_group_state` (KIP-932).

Pure, like `coordinatord.coordination.group`; `step.step` is the entry point:
state.py     the stored state of one share partition
events.py    the events
result.py    the result of a step
replay.py    the only functions that write the state
step.py      the decisions
combiner.py  the combination of state batches
The shell around it:
coordinator.py  all share partitions of this node: look-up, the log, loading, pruning
"""
