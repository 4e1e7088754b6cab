"""XXH64 as Spark's function `xxhash64` computes it (org.apache.spark.sql.catalyst.expressions.XXH64)."""

from __future__ import annotations

import struct

P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
MASK = (1 << 64) - 1
SEED = 42
"""Spark's."""
STRIPE = struct.Struct("<4Q")


def xxhash64(data: bytes, seed: int = SEED) -> int:
    """Return the hash as an unsigned number; Spark's is the same one as a signed one."""
    at = len(data) - len(data) % STRIPE.size
    if at:
        lanes = [seed + P1 + P2, seed + P2, seed, seed - P1]
        for stripe in STRIPE.iter_unpack(data[:at]):
            lanes = [_round(lane, value) for lane, value in zip(lanes, stripe, strict=True)]
        found = sum(_rotated(lane & MASK, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = (found ^ _round(0, lane)) * P1 + P4
    else:
        found = seed + P5
    found = (found + len(data)) & MASK
    while at + 8 <= len(data):
        found = _rotated(found ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * P1 + P4 & MASK
        at += 8
    if at + 4 <= len(data):
        found = _rotated(found ^ int.from_bytes(data[at : at + 4], "little") * P1 & MASK, 23) * P2 + P3 & MASK
        at += 4
    for byte in data[at:]:
        found = _rotated(found ^ byte * P5 & MASK, 11) * P1 & MASK
    found = (found ^ found >> 33) * P2 & MASK
    found = (found ^ found >> 29) * P3 & MASK
    return found ^ found >> 32


def _round(lane: int, value: int) -> int:
    return _rotated(lane + value * P2 & MASK, 31) * P1 & MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK
