"""API versions that brokers of Kafka's releases offer to clients, from the message definitions of each release.

The source is `validVersions`, without a `latestVersionUnstable`, of each `common/message/*Request.json` with the
listener `broker` in kafka-clients 3.9.1, 4.0.1, 4.1.1, 4.2.0, 4.3.1 and 4.4.0. Each release after the first lists the
APIs whose range differs from the release before; no release drops an API.
"""

from __future__ import annotations

from typing import Final

Ranges = dict[int, tuple[int, int]]
"""First and last version by API key."""

# fmt: off
_CHANGES: Final[dict[str, Ranges]] = {
    "3.9": {
        0: (0, 11), 1: (0, 17), 2: (0, 9), 3: (0, 12), 8: (0, 9), 9: (0, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4),
        13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (0, 7), 20: (0, 6), 21: (0, 2),
        22: (0, 5), 23: (0, 4), 24: (0, 5), 25: (0, 4), 26: (0, 4), 27: (0, 1), 28: (0, 4), 29: (0, 3), 30: (0, 3),
        31: (0, 3), 32: (0, 4), 33: (0, 2), 34: (0, 2), 35: (0, 4), 36: (0, 2), 37: (0, 3), 38: (0, 3), 39: (0, 2),
        40: (0, 2), 41: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 48: (0, 1),
        49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 1), 60: (0, 1), 61: (0, 0), 64: (0, 0), 65: (0, 0),
        66: (0, 1), 68: (0, 0), 69: (0, 0), 71: (0, 0), 72: (0, 0), 74: (0, 0), 75: (0, 0), 80: (0, 0), 81: (0, 0),
    },
    "4.0": {
        0: (3, 12), 1: (4, 17), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 15: (0, 6), 19: (2, 7), 20: (1, 6),
        23: (2, 4), 26: (0, 5), 27: (1, 1), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 34: (1, 2),
        35: (1, 4), 38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3), 57: (0, 2), 60: (0, 2), 68: (0, 1), 69: (0, 1),
    },
    "4.1": {
        0: (3, 13), 1: (4, 18), 45: (0, 1), 66: (0, 2), 74: (0, 1), 76: (1, 1), 77: (1, 1), 78: (1, 1), 79: (1, 1),
        83: (0, 0), 84: (0, 0), 85: (0, 0), 86: (0, 0), 87: (0, 0), 90: (0, 0), 91: (0, 0), 92: (0, 0),
    },
    "4.2": {
        2: (1, 11), 8: (2, 10), 9: (1, 10), 27: (1, 2), 78: (1, 2), 79: (1, 2), 80: (0, 1), 85: (0, 1), 87: (0, 1),
        88: (0, 0), 89: (0, 0), 90: (0, 1),
    },
    "4.3": {
        35: (1, 5),
    },
    "4.4": {
        18: (0, 5), 28: (0, 6), 42: (0, 3), 88: (0, 1), 89: (0, 1), 93: (0, 0), 94: (0, 0),
    },
}
# fmt: on

FEATURES_FROM: Final = {"group.version": "4.0", "share.version": "4.2", "transaction.version": "4.0"}
"""First release that enables a feature by default."""

RELEASES: Final = tuple(_CHANGES)
"""Names of the releases, oldest first."""

NEWEST: Final = RELEASES[-1]


def ranges_of(release: str) -> Ranges:
    """Return the API versions that a broker of `release` offers. Raises ValueError for an unlisted release."""
    ranges: Ranges = {}
    for name in RELEASES[: RELEASES.index(release) + 1]:
        ranges |= _CHANGES[name]
    return ranges


def has_feature(release: str, feature: str) -> bool:
    """Return whether `release` enables `feature` by default."""
    return RELEASES.index(release) >= RELEASES.index(FEATURES_FROM[feature])


def share_version(release: str) -> int:
    """Return the level of share.version that `release` enables by default: 2 has dead letters (KIP-1191)."""
    return 2 if RELEASES.index(release) >= RELEASES.index("4.4") else 1
