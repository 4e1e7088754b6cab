"""How much of a TLS client hello has come (RFC 8446, sections 4 and 5.1): it may be in several records."""

from __future__ import annotations

from typing import Final

RECORD_HEAD: Final = 5
MESSAGE_HEAD: Final = 4
HANDSHAKE_RECORD: Final = 0x16


class Hello:
    """Reads each record once, however often it is asked."""

    __slots__ = ("_at", "_had", "_head")

    def __init__(self) -> None:
        #: where the record begins that is not read yet, and the bytes of the message before it
        self._at = 0
        self._had = 0
        self._head = b""

    def awaited(self, received: bytes) -> int:
        """How many bytes must be there before there is more to know, or before the hello is whole, if that is at most
        `len(received)`. `received` is everything so far. What is no hello counts as whole: OpenSSL refuses it.
        """
        while True:
            begins = self._at + RECORD_HEAD
            if len(received) < begins:
                return begins
            size = int.from_bytes(received[begins - 2 : begins], "big")
            if received[self._at] != HANDSHAKE_RECORD or size == 0:
                return begins
            head = self._head + received[begins : min(begins + size, begins + MESSAGE_HEAD - len(self._head))]
            ends = begins + size
            if len(received) < ends:
                return ends
            if len(head) == MESSAGE_HEAD and self._had + size >= MESSAGE_HEAD + int.from_bytes(head[1:], "big"):
                return ends
            self._at, self._had, self._head = ends, self._had + size, head
