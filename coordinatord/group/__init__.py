"""What a group decides: pure functions over plain data. `classic.step` is the way in; its docstring is the theory.

state.py    what a group is: states and their table, members, settings
events.py   what can happen to it
result.py   what a step wants done
pending.py  offsets of open transactions; transactional.py: how they are committed
replay.py   the one writer of durable state
classic.py  step, heartbeat, time-outs, restore
"""
