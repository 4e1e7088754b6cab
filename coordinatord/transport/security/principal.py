"""The name under which a connection acts: Kafka's KafkaPrincipal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER_TYPE: Final = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """Two principals are the same if type and name are: both compare with case, as in Kafka."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        """As Kafka writes it, in logs and in ACLs: "User:alice"."""
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """`TYPE:NAME` -> a principal; the name may contain colons. ValueError otherwise, with Kafka's words
        (SecurityUtils.parseKafkaPrincipal).
        """
        principal_type, colon, name = text.partition(":")
        if not colon or not principal_type or not name:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(principal_type, name)


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")
"""Who has proved nothing: each client of a PLAINTEXT listener, and of an SSL one that asks for no certificate."""
