"""Kafka, for the tests that compare with it."""

from __future__ import annotations

from tests.reference.conftest import kafka_libs as kafka_libs
