"""Errors and warnings of tests, with messages in sentences."""

from __future__ import annotations


class KafkaError(Exception):
    """A mistake in a test, or an object that does not exist: the message has the problem and the remedy."""


class NotInTime(AssertionError):
    """A wait has timed out: the message has the expected condition and the actual state."""


class NeverFired(AssertionError):
    """A fault has hit no request in its block."""


class OnlyHere(KafkaError):
    """An operation that only coordinatord has was used on an external broker. Under pytest the test is skipped."""


class KafkaLeftovers(UserWarning):
    """A test has left members or open transactions behind."""
