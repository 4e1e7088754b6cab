"""What happens to a request of the group family between its decoding and its group's step.

    find.py         FindCoordinator
    membership.py   JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    seats.py        JoinGroups and SyncGroups like those before, which are not decoded
    offsets.py      OffsetCommit, OffsetFetch, OffsetDelete
    admin.py        ListGroups, DescribeGroups, DeleteGroups
    refusals.py     the answer that each of them has for a request that reaches no group

Handlers check bounds, look up the group's actor and give it an event. Nothing that a group decides is here.
"""
