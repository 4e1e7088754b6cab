"""What a client may do, and how much of it: checks and meters in front of the handlers, the APIs of ACLs and quotas.

table.py                each API and what it needs; start here
rules.py                the kinds of rules that the table is made of
special.py              rules of APIs that are like no other
error_responses.py      the responses that carry an authorization error
guard.py                puts the rules in front of the handlers
authorized_fastpath.py  lets shortcuts answer what a client may repeat
acls.py                 CreateAcls, DescribeAcls, DeleteAcls

quotas.py      quotas of users, client ids and addresses, and what was used of them
rates.py       Kafka's rates and token buckets
throttling.py  measures requests, and mutes connections
addresses.py   how many connections an address may have, and how fast
quota_apis.py  DescribeClientQuotas, AlterClientQuotas
"""
