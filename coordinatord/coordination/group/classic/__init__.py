"""The classic group protocol.

step.py                the entry point for all events; heartbeats, timeouts, restore
joining.py             JoinGroup
rebalance.py           a rebalance from its first to its last step
syncing.py             SyncGroup
leaving.py             LeaveGroup
members.py             every change of the set of members
protocol_selection.py  the selection of the protocol (assignor)
subscription.py        the topics that consumers subscribe to
interned_metadata.py   shared copies of equal member metadata
"""
