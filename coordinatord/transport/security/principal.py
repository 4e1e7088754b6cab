"""The name under which a connection acts: Kafka's KafkaPrincipal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER_TYPE: Final = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal. Two principals are equal if type and name are; both comparisons are case-sensitive, as in Kafka."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        """Return Kafka's notation in logs and in ACLs: "User:alice"."""
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Parse `TYPE:NAME`; the name may contain colons. Raises ValueError with Kafka's message otherwise
        (SecurityUtils.parseKafkaPrincipal).
        """
        principal_type, colon, name = text.partition(":")
        if not colon or not principal_type or not name:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(principal_type, name)


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")
"""The unauthenticated principal: each client of a PLAINTEXT listener, and of an SSL listener that requires no
certificate.
"""
