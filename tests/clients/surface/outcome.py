"""What a program says of one call, a line of JSON (programs/README.md), read and made comparable."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OK, ERROR, LOCAL, NOT_COVERED = "ok", "error", "local", "not covered"
OUTCOMES = (OK, ERROR, LOCAL, NOT_COVERED)
CLASSES = "classes"
"""The part that tells of a package's classes that are not called."""

ANY = "…"
"""What stands for a value of chance."""

# Keys whose values are chance, whatever they are, in any spelling of any language: memberId, MemberID, member_id.
HOSTS = ("host", "port", "rack", "clienthost")
IDS = ("memberid", "clusterid", "producerid", "topicid", "correlationid", "uuid")
TIMES = ("throttle", "throttletimems", "latency")
OF_CHANCE = frozenset((*HOSTS, *IDS, *TIMES))
UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1)(?::\d+)?")
TIMES_MS = range(1_500_000_000_000, 5_000_000_000_000)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`detail` is the result's shape, an error's name, or why a call reaches no broker. Times: seconds since 1970."""

    part: str
    method: str
    case: str
    outcome: str
    detail: Any
    began_s: float | None = None
    ended_s: float | None = None

    @property
    def key(self) -> str:
        """What a difference is listed by: `admin.create_topics`, and `admin.create_topics: exists` of a case."""
        return f"{self.part}.{self.method}" + (f": {self.case}" if self.case else "")


def parsed(line: str, prefix: str) -> Outcome:
    """One line of a program that was told to give its topics and groups this prefix."""
    said = json.loads(line)
    assert said["outcome"] in OUTCOMES, line
    return Outcome(
        part=said["part"],
        method=said["method"],
        case=said.get("case") or "",
        outcome=said["outcome"],
        detail=canonical(said.get("detail"), prefix),
        began_s=said.get("began"),
        ended_s=said.get("ended"),
    )


def canonical(value: Any, prefix: str) -> Any:
    """The value with what differs from run to run taken out, and everything else as it is."""
    if isinstance(value, Mapping):
        return {
            canonical(str(name), prefix): (
                ANY if _plain(str(name)) in OF_CHANCE and each not in (None, "") else canonical(each, prefix)
            )
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [canonical(each, prefix) for each in value]
    if isinstance(value, str):
        return UUID.sub(ANY, ADDRESS.sub(ANY, value.replace(prefix, "PREFIX")))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and int(value) in TIMES_MS:
        return ANY
    return value


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
