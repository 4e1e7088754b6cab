"""Random ids in Java's form."""

from __future__ import annotations

import secrets


def new_uuid4() -> str:
    """A random UUID in Java's form: what Kafka puts behind the dash of a member id."""
    raw = bytearray(secrets.token_bytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
