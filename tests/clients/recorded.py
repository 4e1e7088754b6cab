"""What clients have sent: the files in tests/golden/traffic, read and written.

A file is JSON lines, compressed. The first line is the origin. Each other one is [milliseconds, connection, what]:
"open", "close" (by whichever side), or a request's bytes in hex, without the four bytes of its size.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAFFIC = Path(__file__).parents[1] / "golden" / "traffic"
PHASES = ("rebalance", "steady", "close")
OPENED, CLOSED = "open", "close"


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client's, and when its connection brought it (milliseconds since the recording began)."""

    at_ms: float
    connection: int
    data: bytes

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.data[:2], "big")

    @property
    def api_version(self) -> int:
        return int.from_bytes(self.data[2:4], "big")

    @property
    def client_id(self) -> str:
        size = int.from_bytes(self.data[8:10], "big", signed=True)
        return self.data[10 : 10 + max(size, 0)].decode()


@dataclass(frozen=True, slots=True)
class Recorded:
    """One phase of one client family. `opened` and `closed` are by connection."""

    origin: dict[str, Any]
    requests: list[Request]
    opened: dict[int, float]
    closed: dict[int, float]


def families(directory: Path = TRAFFIC) -> list[str]:
    """The client families that there are recordings of."""
    return sorted({path.name.rpartition("-")[0] for path in directory.glob("*.jsonl.xz")})


def path_of(family: str, phase: str, directory: Path = TRAFFIC) -> Path:
    return directory / f"{family}-{phase}.jsonl.xz"


def read(family: str, phase: str, directory: Path = TRAFFIC) -> Recorded:
    """One file."""
    lines: Iterator[Any]
    with lzma.open(path_of(family, phase, directory), "rt", encoding="ascii") as file:
        lines = map(json.loads, file)
        found = Recorded(next(lines)["origin"], [], {}, {})
        for at_ms, connection, what in lines:
            if what == OPENED:
                found.opened[connection] = at_ms
            elif what == CLOSED:
                found.closed[connection] = at_ms
            else:
                found.requests.append(Request(at_ms, connection, bytes.fromhex(what)))
    return found


def write(path: Path, origin: dict[str, Any], lines: Iterable[tuple[float, int, str]]) -> None:
    """One file. `lines` are in order of time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", preset=9, encoding="ascii") as file:
        file.write(json.dumps({"origin": origin}) + "\n")
        for at_ms, connection, what in lines:
            file.write(json.dumps([round(at_ms, 1), connection, what], separators=(",", ":")) + "\n")
