"""Types of the fixtures that make something: see conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka import KafkaConsumer

    from tests.clients.members import Member

Name = Callable[[str], str]
MakeTopic = Callable[..., str]
Produce = Callable[..., list[bytes]]
MakeMember = Callable[..., "Member"]
MakeConsumer = Callable[..., "KafkaConsumer"]
