"""Random ids in Java's form.

Random bytes come from `os.urandom`, here and in all modules that are imported at start. `secrets` uses the same source,
but imports hmac, hashlib and random, which makes a start 1.5 ms slower.
"""

from __future__ import annotations

import os

IDS_AT_A_TIME = 64
"""Number of ids whose digits one system call fetches: a call per id would be half of an id's cost."""

_DIGITS = 32
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class RandomIds:
    """Generator of random UUIDs in Java's form, as Kafka appends them to the dash of a member id: call the object for
    each id. Create it in the process that uses it: after a fork both processes would return the same ids.
    """

    __slots__ = ("_at", "_digits")

    def __init__(self) -> None:
        self._digits = ""
        self._at = 0

    def __call__(self) -> str:
        at = self._at
        if at == len(self._digits):
            self._digits = os.urandom(IDS_AT_A_TIME * _DIGITS // 2).hex()
            at = 0
        self._at = at + _DIGITS
        raw = self._digits[at : at + _DIGITS]
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-{_VARIANT[raw[16]]}{raw[17:20]}-{raw[20:]}"
