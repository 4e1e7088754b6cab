"""The consumer protocol (KIP-848): the coordinator assigns partitions, members send only heartbeats.

step.py                the entry point for all events of consumer groups
state.py               a group: members, target assignment, epochs
topics.py              the topics as a group sees them, with hashes
records.py             conversion of a group to its records, and back
replay.py              the only functions that write durable state
heartbeat.py           ConsumerGroupHeartbeat
validation.py          validation of heartbeats
group_epoch.py         changes of the group epoch and of the target assignment
rebalance_triggers.py  causes of a new group epoch, as text
epoch_record.py        the effects of an epoch: partitions revoked and assigned per member, and the longest wait
assigning.py           a long assignment, in slices
reconcile.py           reconciliation of a member with its target
patterns.py            regular expressions that members subscribe to
leaving.py             leaving, fencing and replacement of members
sessions.py            deadlines of members
timeouts.py            handling of passed deadlines; new deadlines after a load
commits.py             validation of commits and offset fetches
describe.py            ConsumerGroupDescribe
upgrade.py             conversion into a consumer group
downgrade.py           conversion of a consumer group into a classic one
classic_members.py     classic requests to a consumer group
consumer_protocol.py   the subscriptions and assignments of classic consumers
expressions.py         compilation of regular expressions
metadata_hash.py       the hash by which a group detects changes of its topics
java_collections/      the iteration order of Java's hash tables
assignors/             Kafka's server-side assignors, uniform and range
"""
