"""The requests of the group family: from the decoded request to the group's step, and back.

membership.py         JoinGroup, SyncGroup, Heartbeat, LeaveGroup
offsets.py            OffsetCommit, OffsetFetch, OffsetDelete
txn_offset_commit.py  TxnOffsetCommit
consumer_groups.py    ConsumerGroupHeartbeat, ConsumerGroupDescribe
admin.py              ListGroups, DescribeGroups, DeleteGroups
find_coordinator.py   FindCoordinator, for groups and for transactional ids
"""
