"""What can go wrong in a test, as sentences."""

from __future__ import annotations


class KafkaError(Exception):
    """A mistake in a test, or something that is not there: the message says what is wrong and what to do."""


class NotInTime(AssertionError):
    """What was waited for has not happened: the message says what it was, and what there is."""


class NeverFired(AssertionError):
    """A fault has hit no request."""


class OnlyHere(KafkaError):
    """Something that only coordinatord can do was asked of another broker. Under pytest the test is skipped."""


class KafkaLeftovers(UserWarning):
    """A test has left members or transactions behind."""
