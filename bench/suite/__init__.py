"""Sixty tests of a small service, as users of Kafka write them. See rows/suite.py."""
