"""Valid names of topics, by the rules of Kafka's Topic class."""

from __future__ import annotations

import re

MAX_TOPIC_CHARACTERS = 249
"""Kafka's Topic.MAX_NAME_LENGTH: a directory name has at most 255 bytes, and includes the partition number."""

_topic = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_CHARACTERS}}}\Z").match


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name (Topic.isValid). Requests with other names get an error response, and
    the names are not stored.
    """
    return _topic(name) is not None and name not in (".", "..")
