"""Stories: requests of clients to a broker, on which connection, and the responses that were recorded from Kafka.

```
# Since v4 a member without an id is given one and has to come back with it (KIP-394).

setting group.initial.rebalance.delay.ms = 3000
default JoinGroup group_id=group, session_timeout_ms=10000, protocol_type="consumer"

A: JoinGroup v4 protocols=[{name="range", metadata=b"a"}]
----
error_code=MEMBER_ID_REQUIRED, generation_id=-1, member_id=M1
M1 is A-*

A: JoinGroup v4 member_id=M1, protocols=[{name="range", metadata=b"a"}]
----
after 3 s: generation_id=1, ...
```

Everything below a `----` up to the next empty line was recorded from Kafka (`record.py`), not written by hand. If an
earlier Kafka's response differs, `---- 4.3` follows, and its response below it. If our response differs deliberately,
`---- ours: why` follows, and our response below it. Lines above are commands, indented lines continue them. The
commands on a connection, which is a capital letter and perhaps a digit:

    A: Api vN field=value, ...     send a request and record its response
    A> Api vN field=value, ...     send a request; its response comes later
    A<                             record the next response
    A?                             record whether a response has arrived
    A frame EXPRESSION             send these bytes as a frame and record the result
    A bytes EXPRESSION             send these bytes as they are and record the result
    A open client_id=VALUE         use another client id than the connection's name
    A close                        close the connection

and `wait N s`. `setting NAME = VALUE` is a setting of the broker; `default Api field=value, ...` has default fields for
each request of that API; `alone` requires a broker that no other story uses at the same time. A `slow` story takes
minutes with Kafka and is recorded again only when it is selected by name.

Values are Python's literals; a struct is `{field=value, ...}`. Names: `group` and `topic` (and `group2`, `topic_b` ...)
are names that no other story has; M1, T1 and P1 are the member ids, topic ids and producer ids in the order of their
first appearance. Functions: see `values.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

FOLDER = Path(__file__).parent / "stories"
RESULT_MARK = "----"
OURS_MARK = "---- ours: "
RELEASE = "4.4"
"""The release of Kafka whose responses are recorded first."""
EARLIER = ("4.3",)
"""Releases whose responses are recorded where they differ."""

_CONNECTION = r"(?P<connection>[A-Z][0-9]?)"
_REQUEST = re.compile(
    _CONNECTION + r"(?P<kind>[:>]) (?P<api>[A-Za-z]+) v(?P<version>\d+)(?: (?P<text>.*))?$", re.DOTALL
)
_OTHER = re.compile(_CONNECTION + r"(?P<kind>[<?]| frame| bytes| open| close)(?: (?P<text>.*))?$", re.DOTALL)
_WAIT = re.compile(r"wait (?P<seconds>\d+(?:\.\d+)?) s$")
_SETTING = re.compile(r"setting (?P<name>[a-z.]+) =(?: (?P<value>.+))?$")
_DEFAULT = re.compile(r"default (?P<api>[A-Za-z]+) (?P<text>.+)$", re.DOTALL)

ANSWERED = (":", "<", "?", "frame", "bytes")
"""Kinds of commands that have a result."""


class StoryError(Exception):
    """A story that does not follow the rules above; the message has the position."""


@dataclass(slots=True)
class Step:
    """One command. `kind` is ":", ">", "<", "?", "frame", "bytes", "open", "close" or "wait".

    `recorded` is the response of Kafka RELEASE; `earlier` has those of earlier releases that differ, by release. `ours`
    is coordinatord's if it differs deliberately, and `reason` is the reason.
    """

    line: int
    kind: str
    source: str
    connection: str = ""
    api: str = ""
    version: int = 0
    text: str = ""
    seconds: float = 0
    recorded: list[str] = field(default_factory=list)
    earlier: dict[str, list[str]] = field(default_factory=dict)
    ours: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def is_answered(self) -> bool:
        return self.kind in ANSWERED


@dataclass(slots=True)
class Story:
    """A parsed file. `parts` has its lines: steps, and all other text as written. `release`: that of Kafka whose
    responses are the recorded ones.
    """

    name: str
    path: Path
    alone: bool = False
    slow: bool = False
    release: str = RELEASE
    settings: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    parts: list[str | Step] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        return [part for part in self.parts if isinstance(part, Step)]

    def as_of(self, release: str) -> Story:
        """Return the story with the responses of another release of Kafka as the recorded ones."""
        parts = [
            replace(part, recorded=part.earlier.get(release, part.recorded)) if isinstance(part, Step) else part
            for part in self.parts
        ]
        return replace(self, release=release, parts=parts)

    def rendered(self, results: list[list[str]], ours: bool = False) -> str:
        """Return the file's text with other results, Kafka's or ours; all other text stays as written."""
        remaining = iter(results)
        out = []
        for part in self.parts:
            if isinstance(part, str):
                out.append(part)
                continue
            out.append(part.source)
            if not part.is_answered:
                continue
            result = next(remaining)
            out += [RESULT_MARK, *(part.recorded if ours and part.reason else result)]
            for release, answer in part.earlier.items():
                out += [f"{RESULT_MARK} {release}", *answer]
            if part.reason:
                out += [OURS_MARK + part.reason, *(result if ours else part.ours)]
        return "\n".join(out).rstrip("\n") + "\n"


def all_stories() -> list[Story]:
    """Return every story of the folder, by name."""
    return [parse(path) for path in sorted(FOLDER.glob("*.txt"))]


def parse(path: Path) -> Story:
    """Read a story file. Raises StoryError with the line of an error."""
    story = Story(path.stem, path)
    lines = path.read_text().splitlines()
    position = 0
    while position < len(lines):
        line = lines[position]
        if not line.strip() or line.startswith("#"):
            story.parts.append(line)
            position += 1
            continue
        start = position
        position += 1
        while position < len(lines) and lines[position].startswith(" "):
            position += 1
        source = "\n".join(lines[start:position])
        step = _command(story, start + 1, source)
        if step is None:
            story.parts.append(source)
            continue
        story.parts.append(step)
        if position < len(lines) and lines[position] == RESULT_MARK:
            if not step.is_answered:
                raise StoryError(f"{path.name}:{start + 1}: this command has no result")
            position += 1
            answer = step.recorded
            while position < len(lines) and lines[position].strip():
                if lines[position].startswith(OURS_MARK):
                    step.reason = lines[position].removeprefix(OURS_MARK)
                    answer = step.ours
                elif lines[position].removeprefix(f"{RESULT_MARK} ") in EARLIER:
                    answer = step.earlier.setdefault(lines[position].removeprefix(f"{RESULT_MARK} "), [])
                else:
                    answer.append(lines[position])
                position += 1
    return story


def _command(story: Story, line: int, source: str) -> Step | None:
    """Return the step of a command; None for a setting or default, which is stored in the story."""
    joined = " ".join(part.strip() for part in source.splitlines())
    if match := _REQUEST.match(joined):
        return Step(line, match["kind"], source, match["connection"], match["api"], int(match["version"]),
                    match["text"] or "")  # fmt: skip
    if match := _OTHER.match(joined):
        return Step(line, match["kind"].strip(), source, match["connection"], text=match["text"] or "")
    if match := _WAIT.match(joined):
        return Step(line, "wait", source, seconds=float(match["seconds"]))
    if joined == "alone":
        story.alone = True
        return None
    if joined == "slow":
        story.slow = True
        return None
    if match := _SETTING.match(joined):
        story.settings[match["name"]] = match["value"] or ""
        return None
    if match := _DEFAULT.match(joined):
        story.defaults[match["api"]] = match["text"]
        return None
    raise StoryError(f"{story.path.name}:{line}: not a command: {joined}")
