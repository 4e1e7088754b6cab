"""An acknowledged-loss checker: real nodes, real clients, faults by seed, and histories that are checked afterwards.

history.py     what clients asked and were told, and what is wrong with it: pure
registers.py   commits of groups without members, and looks at all nodes, in our own codecs
real.py        kafka-python: a producer, a transactional producer, and what its groups report
proxy.py       between a node and PostgreSQL
cluster.py     the nodes, PostgreSQL, the faults
replicated.py  the same over a primary and a standby, which is promoted
"""
