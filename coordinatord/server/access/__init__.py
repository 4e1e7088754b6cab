"""Authorization and quotas: checks and meters before the handlers, and the APIs of ACLs and quotas.

table.py                the permissions that each API needs; start here
rules.py                the kinds of rules in the table
special.py              rules of single APIs
guard.py                applies the rules before the handlers
authorized_fastpath.py  lets shortcuts respond to requests that were authorized before
acls.py                 CreateAcls, DescribeAcls, DeleteAcls

quotas.py      quotas of users, client ids and addresses, and their use
rates.py       Kafka's rates and token buckets
throttling.py  measures requests, and mutes connections
addresses.py   limits of the number and rate of connections from an address
quota_apis.py  DescribeClientQuotas, AlterClientQuotas
"""
