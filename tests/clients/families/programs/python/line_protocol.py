"""The line protocol of ../README.md for programs in Python. Runs where nothing of ours is installed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping

ARGUMENTS = dict(argument.split("=", 1) for argument in sys.argv[1:])
closing = threading.Event()


def say(kind: str, *rest: object) -> None:
    sys.stdout.write(" ".join(map(str, [kind, *rest])) + "\n")
    sys.stdout.flush()


def numbers(partitions: Iterable[int]) -> str:
    return ",".join(map(str, sorted(partitions))) or "-"


def pairs(offsets: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items())) or "-"


def parsed_pairs(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in (pair.split(":") for pair in text.split(","))}


def listen_for_close() -> None:
    """`closing` is set when the driver says `close`, and when the driver is gone."""

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "close":
                break
        closing.set()

    threading.Thread(target=listen, daemon=True).start()


def values() -> list[bytes]:
    return [b"%s-%06d" % (ARGUMENTS["prefix"].encode(), number) for number in range(int(ARGUMENTS["count"]))]


def aborted_values() -> list[bytes]:
    return [b"aborted-" + value for value in values()]


def as_it_comes() -> bool:
    """Whether a consumer keeps its client's own settings and has it commit by itself."""
    return ARGUMENTS.get("settings") == "default"


def next_protocol() -> bool:
    """Whether a consumer is a member by the consumer protocol (KIP-848) and not by the classic one."""
    return ARGUMENTS.get("protocol") == "consumer"


def isolation() -> str:
    """Of a consumer: every one of them here reads the uncommitted too, unless told."""
    return ARGUMENTS.get("isolation") or "read_uncommitted"
