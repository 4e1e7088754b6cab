"""The consumer protocol (KIP-848): the coordinator assigns, members send nothing but heartbeats.

step.py                the one funnel for events of consumer groups
state.py               a group: members, target assignment, epochs
topics.py              what a group knows of topics; hashes of them
records.py             the records of a group, and back
replay.py              the one writer of durable state
heartbeat.py           ConsumerGroupHeartbeat
validation.py          why a heartbeat is refused
group_epoch.py         when the group's epoch and its target assignment move
rebalance_triggers.py  why the epoch rises, in words
epoch_record.py        what an epoch cost: who had to give up and got what, who held it up
assigning.py           a long assignment, in slices
reconcile.py           from what a member owns to its target
patterns.py            expressions that members subscribe to
leaving.py             members leave, are fenced and replaced
sessions.py            deadlines of members
timeouts.py            what happens when they have passed; what a load starts anew
commits.py             who may commit and fetch offsets
describe.py            ConsumerGroupDescribe
upgrade.py             a group becomes a consumer group
downgrade.py           a consumer group becomes a classic one
classic_members.py     classic requests to a consumer group
consumer_protocol.py   what classic consumers put into their requests
expressions.py         subscriptions by regular expression
syntax.py              which expressions Kafka takes
metadata_hash.py       the hash by which a group notices that its topics changed
assignors/             Kafka's server-side assignors, uniform and range
"""
