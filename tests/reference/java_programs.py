"""Ask Kafka's own classes: the Java programs of java/, each run once for many questions.

`python -m tests.reference.java_programs NAME ...` records the answers to the questions of the quick tests anew: for the
programs with these names, or for all.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.coordination.group.consumer import assignor_cases, expression_cases, hash_cases
from tests.coordination.group.share import assignor_cases as share_assignor_cases
from tests.coordination.share import kafka_programs as share_partitions
from tests.coordination.share.coordinator import kafka_programs as share_states
from tests.reference.broker import kafka_libs
from tests.testing.member import assignor_cases as member_cases

FOLDER = Path(__file__).parent / "java"
TIMEOUT_S = 600


def lines_of(program: str, libs: Path, lines: Iterable[str], begins: str = "") -> list[str]:
    """Return the lines that a program writes, those that begin so: one for each line that it reads."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*"]
    command.append(str(FOLDER / f"{program}.java"))  # a source file instead of a class: java compiles it first
    sent = list(lines)
    text = "".join(line + "\n" for line in sent)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = [line for line in done.stdout.splitlines() if line.startswith(begins)]
    assert len(found) == len(sent), done.stderr[-4000:]
    return found


class Program(NamedTuple):
    """One program, and its recording: the questions of the quick tests. The head of each program has the form of its
    questions and answers; `sent` makes one of what is recorded.
    """

    source: str
    recorded: Path
    questions: Callable[[], Sequence[Any]]
    sent: Callable[[Any], Any] = lambda question: question
    begins: str = ""

    def ask(self, libs: Path, questions: Sequence[Any]) -> list[Any]:
        """Return the answers, in the order of the questions."""
        sent = (json.dumps(self.sent(each)) for each in questions)
        return [json.loads(line) for line in lines_of(self.source, libs, sent, self.begins)]

    def differing(self, libs: Path, questions: Sequence[Any], ours: Callable[[Any], Any]) -> list[Any]:
        """Return the questions whose answers are not ours."""
        answers = self.ask(libs, questions)
        return [asked for asked, answer in zip(questions, answers, strict=True) if ours(asked) != answer]

    def pairs(self, libs: Path) -> list[list[Any]]:
        """Return the questions of the quick tests, each with its answer, as JSON has them."""
        asked = self.questions()
        pairs = [list(each) for each in zip(asked, self.ask(libs, asked), strict=True)]
        return json.loads(json.dumps(pairs))  # type: ignore[no-any-return]

    def read(self) -> list[list[Any]]:
        """Return the recorded pairs."""
        if self.recorded.suffix == ".xz":
            return json.loads(lzma.decompress(self.recorded.read_bytes()))  # type: ignore[no-any-return]
        return [json.loads(line) for line in self.recorded.read_text().splitlines()]

    def record(self, libs: Path) -> None:
        """Write the file that the quick tests compare with."""
        if self.recorded.suffix == ".xz":
            content = json.dumps(self.pairs(libs), separators=(",", ":")).encode()
            self.recorded.write_bytes(lzma.compress(content, preset=9))
        else:
            lines = (json.dumps(each, separators=(",", ":")) + "\n" for each in self.pairs(libs))
            self.recorded.write_text("".join(lines))


ASSIGNORS = Program("AssignorCheck", member_cases.RECORDED, lambda: member_cases.questions(member_cases.RECORDED_SEEDS))
SERVER_ASSIGNORS = Program(
    "ServerAssignorCheck", assignor_cases.RECORDED, lambda: assignor_cases.questions(assignor_cases.RECORDED_SEEDS)
)
SHARE_ASSIGNORS = Program(
    "ServerAssignorCheck",
    share_assignor_cases.RECORDED,
    lambda: share_assignor_cases.questions(share_assignor_cases.RECORDED_SEEDS),
)
EXPRESSIONS = Program(
    "ExpressionCheck",
    expression_cases.RECORDED,
    lambda: list(dict.fromkeys(expression_cases.patterns(expression_cases.RECORDED_SEEDS))),
    lambda pattern: [pattern, expression_cases.TOPICS],
)
"""RE2/J, of the version that Kafka has."""
METADATA_HASH = Program(
    "MetadataHashCheck", hash_cases.RECORDED, lambda: [hash_cases.question(seed) for seed in hash_cases.RECORDED_SEEDS]
)
SHARE_COORDINATOR = Program(
    "ShareCoordinatorCheck",
    share_states.RECORDED,
    lambda: [share_states.program(seed) for seed in share_states.RECORDED_SEEDS],
    begins="[[",
)
SHARE_PARTITION = Program(
    "SharePartitionCheck", share_partitions.RECORDED, share_partitions.recorded_programs, begins="[["
)
PROGRAMS = {name.lower(): each for name, each in list(globals().items()) if isinstance(each, Program)}


def ask_messages(libs: Path, questions: Iterable[Sequence[str]]) -> list[list[str]]:
    """Ask Kafka's own generated message classes; see the head of MessageCheck.java."""
    return [line.split("\t") for line in lines_of("MessageCheck", libs, map("\t".join, questions))]


if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        PROGRAMS[name].record(kafka_libs())
