"""What happened, as a person reads it: when, who, what. All of it is kept for `--trace`, else the last lines."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from coordinatord.testing.simulation.engine import START_MS, Engine
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.errors import ErrorCode

TAIL = 60
RANDOM_PART = re.compile(r"(\w[\w.]*)-([0-9a-f]{4})[0-9a-f]{28}")
WHO_WIDTH = 18


def told_time(ms: int) -> str:
    """Hours, minutes, seconds since the world began."""
    seconds, rest_ms = divmod(ms - START_MS, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:4}:{minutes:02}:{seconds:02}.{rest_ms:03}"


class Story:
    """Lines of (time, who, what). `is_traced`: also those of single requests, and all of them are kept."""

    def __init__(self, engine: Engine, *, is_traced: bool = False) -> None:
        self.engine = engine
        self.is_traced = is_traced
        self.lines: deque[tuple[int, str, str]] = deque(maxlen=None if is_traced else TAIL)

    def say(self, who: str, what: str) -> None:
        self.lines.append((self.engine.now_ms, who, what))

    def told(self) -> list[str]:
        """One line each; member ids shortened to what tells them apart."""
        return [f"{told_time(at)}  {who:{WHO_WIDTH}} {RANDOM_PART.sub(_short, what)}" for at, who, what in self.lines]


def _short(match: re.Match[str]) -> str:
    return f"{match[1]}-{match[2]}…"


def request_told(request: Any) -> str:
    """A request in a story."""
    name = type(request).__name__.removesuffix("Request")
    generation = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", None))
    extra = "" if generation is None else f", generation {generation}"
    if type(request) is OffsetCommitRequest:
        offsets = {each.partition_index: each.committed_offset for topic in request.topics for each in topic.partitions}
        extra += f", {offsets}"
    return f"{name}{extra}"


def answer_told(response: Any) -> str:
    """Its answer."""
    name = type(response).__name__.removesuffix("Response")
    error = getattr(response, "error_code", 0)
    codes = [error] if error else []
    for topic in getattr(response, "topics", ()):
        codes += [each.error_code for each in getattr(topic, "partitions", ()) if getattr(each, "error_code", 0)]
    for each in getattr(response, "coordinators", ()):
        codes += [each.error_code] if each.error_code else [f"node-{each.node_id}"]
    for group in getattr(response, "groups", ()):
        for topic in group.topics:
            codes += [f"{each.partition_index}: {each.committed_offset}" for each in topic.partitions]
        codes += [group.error_code] if group.error_code else []
    told = [ErrorCode(code).name if isinstance(code, int) else code for code in codes]
    generation = f" generation {response.generation_id}" if getattr(response, "generation_id", -1) >= 0 else ""
    return f"{name}{generation}{': ' + ', '.join(told) if told else ''}"
