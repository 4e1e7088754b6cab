"""A foreign client's program as a child process: what it says, what it holds, ways to end it."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import PATIENCE_S, wait_until

SHOWN_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the line protocol (programs/README.md), and when it was read (seconds since 1970)."""

    kind: str
    rest: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Command:
    """How to run a program, without what one run of it is told."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def parsed_numbers(text: str) -> set[int]:
    return set() if text in ("-", "") else set(map(int, text.split(",")))


def parsed_pairs(text: str) -> dict[int, int]:
    if text in ("-", ""):
        return {}
    return {int(partition): int(offset) for partition, offset in (pair.split(":") for pair in text.split(","))}


class Program:
    """Runs from construction until it ends or is ended.

    `translate` makes protocol lines of what a tool of others prints; `close_by_signal` says that SIGTERM closes it.
    """

    def __init__(
        self,
        command: Command,
        *arguments: str,
        translate: Callable[[str], str | None] | None = None,
        close_by_signal: bool = False,
    ) -> None:
        self.lines: list[Line] = []
        self.owned: set[int] = set()
        self.records: list[tuple[int, int, str]] = []
        self._translate = translate
        self._close_by_signal = close_by_signal
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the program)
        self.process = subprocess.Popen(
            [*command.words, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors if translate is None else subprocess.STDOUT,
            text=True,
            env={**os.environ, **command.environment},
        )
        self._answers: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._other_output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def values(self) -> list[str]:
        return [value for _, _, value in list(self.records)]

    def of_kind(self, kind: str) -> list[Line]:
        return [line for line in list(self.lines) if line.kind == kind]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if not text.endswith("\n"):  # a SIGKILL may cut the last one off
                break
            said = text.rstrip("\n")
            line = self._translate(said) if self._translate is not None else said
            if line is None or not line.split(" ")[0].isupper():
                self._other_output.append(said)
                continue
            kind, _, rest = line.partition(" ")
            self._take(Line(kind, rest, time.time()))

    def _take(self, line: Line) -> None:
        if line.kind == "ASSIGNED":
            self.owned = self.owned | parsed_numbers(line.rest)
        elif line.kind == "REVOKED":
            self.owned = self.owned - parsed_numbers(line.rest)
        elif line.kind == "RECORD":
            partition, offset, value = line.rest.split(" ", 2)
            self.records.append((int(partition), int(offset), value))
        elif line.kind in ("OK", "ERROR"):
            self._answers.put(line)
        self.lines.append(line)

    def ask(self, *words: str, timeout_s: float = PATIENCE_S) -> Line:
        """Send a line of admin mode and wait for its answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(" ".join(words) + "\n")
            self.process.stdin.flush()
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            with contextlib.suppress(queue.Empty):
                return self._answers.get(timeout=0.2)
            self.check()
        raise AssertionError(f"no answer to {words} within {timeout_s:g} s; {self.story()}")

    def check(self) -> None:
        """Fail when it has ended although nobody asked it to."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}; {self.story()}"

    def write(self, text: str) -> None:
        """Give it its whole standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.close()

    def finished(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until it ends by itself; its exit code."""
        return self._ended(timeout_s)

    def close(self) -> None:
        """Have it leave its group and end, as an application does that ends in order."""
        self.check()
        if self._close_by_signal:
            self.process.terminate()
        else:
            assert self.process.stdin is not None
            self.process.stdin.write("close\n")
            self.process.stdin.close()
        code = self._ended(PATIENCE_S)
        assert code == 0, f"it ended with {code}; {self.story()}"
        assert self._close_by_signal or self.of_kind("CLOSED"), f"it did not say CLOSED; {self.story()}"

    def kill(self) -> None:
        """SIGKILL; what it had said is read."""
        self.process.kill()
        self._ended(PATIENCE_S)

    def _ended(self, timeout_s: float) -> int:
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout_s)
            raise AssertionError(f"it did not end within {timeout_s:g} s; {self.story()}") from None
        self._reader.join(timeout_s)
        return code

    def story(self) -> str:
        """What it said, for a failure's message."""
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")
        said = [f"{line.kind} {line.rest}" for line in list(self.lines) if line.kind != "RECORD"]
        said.append(f"({len(self.records)} records)")
        other = "\n".join(self._other_output)
        return "it said:\n" + "\n".join(said)[-SHOWN_CHARACTERS:] + "\n" + (other + errors)[-SHOWN_CHARACTERS:]


def run_program(command: Command, **arguments: object) -> Program:
    """A program of programs/: its arguments are `name=value`."""
    return Program(command, *(f"{name}={value}" for name, value in arguments.items()))


def wait_for(programs: Sequence[Program], condition: Callable[[], object], what: str, **how: Any) -> float:
    """`wait_until` that ends at once when a program has ended, and says what each had to say."""

    def true_or_ended() -> object:
        for program in programs:
            program.check()
        return condition()

    return wait_until(true_or_ended, what, seen=lambda: "\n".join(each.story() for each in programs), **how)


def wait_for_assignment(programs: Sequence[Program], partitions: int, *, evenly: bool = False, **how: Any) -> float:
    """Until all partitions are owned, each by one program, and no program is without any. `evenly`: each has as many as
    the others. Members of the consumer protocol may be there one after the other.
    """

    def assigned() -> bool:
        owned = Counter(partition for each in programs for partition in each.owned)
        least = partitions // len(programs) if evenly else 1
        return len(owned) == partitions == owned.total() and all(len(each.owned) >= least for each in programs)

    return wait_for(programs, assigned, f"{partitions} partitions with {len(programs)} members", **how)


def wait_for_values(programs: Sequence[Program], values: Sequence[bytes], **how: Any) -> float:
    """Until each of `values` has been seen by some program."""
    wanted = {value.decode() for value in values}

    def arrived() -> bool:
        return wanted <= {value for each in programs for value in each.values}

    return wait_for(programs, arrived, f"{len(wanted)} values", **how)
