"""The classic group's decisions: pure functions over plain data. Start at `classic.step`; its docstring explains them.

state.py    a group: its members, offsets and settings; states.py: its states and their transitions
events.py   the events that a group handles
result.py   what a step asks the shell to do
pending.py  offsets of open transactions; transactional.py: how they are committed
replay.py   the one writer of durable state
classic.py  step, heartbeat, timeouts, restore
"""
