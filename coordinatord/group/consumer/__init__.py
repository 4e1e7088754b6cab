"""The consumer group protocol of KIP-848: the server computes who reads what.

assignors/      Kafka's server-side assignors, uniform and range
expressions.py  subscriptions by regular expression
syntax.py       which expressions Kafka takes
"""
