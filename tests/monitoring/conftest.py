"""Fixtures of Kafka, for tests that compare with it."""

from tests.reference.conftest import kafka_libs

__all__ = ["kafka_libs"]
