"""Completeness of a TLS client hello (RFC 8446, sections 4 and 5.1), which may span several records."""

from __future__ import annotations

from typing import Final

RECORD_HEAD: Final = 5
MESSAGE_HEAD: Final = 4
HANDSHAKE_RECORD: Final = 0x16


class Hello:
    """A parser that reads each record once, however often it is called."""

    __slots__ = ("_at", "_had", "_head")

    def __init__(self) -> None:
        #: where the next unread record begins, and the bytes of the message before it
        self._at = 0
        self._had = 0
        self._head = b""

    def awaited(self, received: bytes) -> int:
        """Return the number of bytes that must have arrived before more of the hello can be read; if it is at most
        `len(received)`, the hello is complete. `received` is everything so far. Input that is no hello counts as
        complete: OpenSSL rejects it.
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
