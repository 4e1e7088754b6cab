"""Command-line tools of others in the place of programs of ours: kcat, and Kafka's ConsumerGroupCommand."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

from kafka_wire.errors import ErrorCode
from tests.clients.families.program import Command, Line, Program, parsed_pairs

TOOL_TIMEOUT_S = 180

# "% Group g rebalanced (memberid …): assigned: t [0], t [1]", and for cooperative members
# "% Group g rebalanced: incremental assignment of 1 partition(s) (memberid …, COOPERATIVE …): t [0]"
KCAT_REBALANCED = re.compile(
    r"% Group \S+ rebalanced"
    r"(?:(?: \(memberid [^)]*\): (?P<eager>assigned|revoked):)"
    r"|(?:: incremental (?P<cooperative>assignment|revoke|unassignment)[^(]*\(s\) \([^)]*\):))"
    r"(?P<partitions>.*)"
)


def translate_kcat(said: str) -> str | None:
    """The protocol line that a line of kcat's standard error stands for."""
    if said.startswith("RECORD "):
        return said
    found = KCAT_REBALANCED.match(said)
    if found is None:
        return None
    came = (found["eager"] or found["cooperative"]) in ("assigned", "assignment")
    numbers = re.findall(r"\[(\d+)\]", found["partitions"])
    return f"{'ASSIGNED' if came else 'REVOKED'} {','.join(numbers) or '-'}"


def run_kcat(command: Command, **arguments: str) -> Program:
    """kcat as a member, which commits by itself every five seconds, or as a producer."""
    if arguments["mode"] == "produce":
        words = ["-P", "-b", arguments["bootstrap"], "-t", arguments["topic"], "-z", arguments["compression"]]
        producer = Program(command, *words, translate=lambda _: None)
        producer.write("".join(f"{arguments['prefix']}-{number:06d}\n" for number in range(int(arguments["count"]))))
        return producer
    properties = {
        "auto.offset.reset": "earliest",
        "session.timeout.ms": arguments["session_timeout_ms"],
        "heartbeat.interval.ms": arguments["heartbeat_interval_ms"],
        "partition.assignment.strategy": arguments["assignor"],
        "group.instance.id": arguments.get("instance"),
        "isolation.level": arguments.get("isolation", "read_uncommitted"),
    }
    words = ["-E", "-b", arguments["bootstrap"], "-G", arguments["group"], "-u", "-f", "RECORD %p %o %s\\n"]
    words += [word for name, value in properties.items() if value is not None for word in ("-X", f"{name}={value}")]
    return Program(command, *words, arguments["topic"], translate=translate_kcat, close_by_signal=True)


class GroupCommand:
    """kafka-consumer-groups.sh: a run of the tool for each line of admin mode."""

    EXCEPTIONS = {
        "GroupNotEmptyException": ErrorCode.NON_EMPTY_GROUP,
        "GroupIdNotFoundException": ErrorCode.GROUP_ID_NOT_FOUND,
        "GroupSubscribedToTopicException": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }

    def __init__(self, command: Command, *, bootstrap: str, mode: str) -> None:
        assert mode == "admin"
        self._command = [*command.words, "--bootstrap-server", bootstrap]

    def ask(self, verb: str, *words: str) -> Line:
        said = self._ask(verb, *words)
        if "Error: " in said:
            codes = [code for name, code in self.EXCEPTIONS.items() if name in said]
            return Line("ERROR", f"{int(codes[0]) if codes else -1} {said}", time.time())
        return Line("OK", said, time.time())

    def _ask(self, verb: str, *words: str) -> str:
        if verb == "list":
            return " ".join(self._run("--list").split())
        group = ["--group", words[0]]
        if verb == "describe":
            (state,) = self._table("--describe", *group, "--state")
            members = self._table("--describe", *group, "--members", "--verbose")
            owned = [number for row in members for number in row["CURRENT-ASSIGNMENT"].partition(":")[2].split(",")]
            return f"{state['STATE']} {state['#MEMBERS']} {','.join(sorted(owned)) or '-'}"
        if verb == "offsets":
            rows = self._table("--describe", *group, "--offsets")
            return ",".join(f"{row['PARTITION']}:{row['CURRENT-OFFSET']}" for row in rows)
        if verb == "alter":
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "offsets.csv"
                file.write_text("".join(f"{words[1]},{p},{offset}\n" for p, offset in parsed_pairs(words[2]).items()))
                return self._run("--reset-offsets", *group, "--from-file", str(file), "--execute")
        if verb == "delete-offsets":
            return self._run("--delete-offsets", *group, "--topic", f"{words[1]}:{words[2]}")
        assert verb == "delete", verb
        return self._run("--delete", *group)

    def _run(self, *arguments: str) -> str:
        # Its own limit, five seconds for each answer, is a short time for a JVM that begins on a busy machine.
        command = [*self._command, *arguments, "--timeout", "120000"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
        return (done.stdout + done.stderr).strip()

    def _table(self, *arguments: str) -> list[dict[str, str]]:
        """What it prints as a table. Columns are as wide as their content: "(ID)" belongs to the one before it."""
        lines = self._run(*arguments).splitlines()
        heads = [at for at, line in enumerate(lines) if line.startswith("GROUP ")]
        if not heads:
            return []
        names = lines[heads[0]].replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        group = arguments[arguments.index("--group") + 1]
        rows = [line.split() for line in lines[heads[0] + 1 :] if line.startswith(f"{group} ")]
        return [dict(zip(names, row, strict=False)) for row in rows]
