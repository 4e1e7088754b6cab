"""The classic group protocol.

step.py                the one funnel for events; heartbeats, timeouts, restore
joining.py             JoinGroup
rebalance.py           a rebalance from its first to its last step
syncing.py             SyncGroup
leaving.py             LeaveGroup
members.py             every change of who is a member
protocol_selection.py  which protocol the members choose
subscription.py        which topics consumers read
"""
