"""What a client may do: checks in front of the handlers, and the APIs of ACLs.

table.py     each API and what it needs; start here
rules.py     the kinds of rules that the table is made of
special.py   rules of APIs that are like no other
refusing.py  the responses that carry an authorization error
guard.py     puts the rules in front of the handlers
acls.py      CreateAcls, DescribeAcls, DeleteAcls
"""
