"""The consumer group protocol of KIP-848: the server computes who reads what.

assignors/        Kafka's server-side assignors, uniform and range
expressions.py    subscriptions by regular expression
syntax.py         which expressions Kafka takes
metadata_hash.py  the hash by which a group notices that its topics changed
"""
