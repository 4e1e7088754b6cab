"""Fixtures of the pipeline's tests. Those with Kafka borrow its tier's."""

from tests.reference.conftest import kafka_libs

__all__ = ["kafka_libs"]
