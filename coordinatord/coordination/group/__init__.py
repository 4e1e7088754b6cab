"""What a group decides: pure functions over plain data. Start at `classic/step.py`; its docstring explains it.

state.py      a group: its members, offsets and settings
states.py     its states and their transitions
events.py     the events that a group handles
result.py     what a step asks the shell to do
replay.py     the one writer of durable state
terminate.py  the end of a group
describe.py   what admin clients see of a group
classic/      the classic protocol: join, sync, heartbeat, leave
consumer/     the consumer protocol of KIP-848: assignors
offsets/      committed offsets, of members, of others and of transactions
"""
