"""Run the steps of the gate or of the full run, and print what each took.

The lanes of a stage run side by side, the steps of a lane one after the other. Each step writes its output to
build/ci/STEP.log, which is printed when the step ends. Uses the standard library alone, because it installs the rest.

The gate repeats nothing: a test that fails, fails it. The full run repeats what failed in tests of foreign programs,
twice and with nothing beside it: a test that fails three times is broken and fails the run. A test that passes in
between is flaky; it is appended to flaky.jsonl, and more than FLAKY_SHARE of all tests fail the run. A broken test that
quarantine.toml names does not.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "ci"
STEP_S = 80 * 60
"""The time after which a command is killed and has failed."""
FLAKY = ROOT / ".ci" / "flaky.jsonl"
QUARANTINE = ROOT / ".ci" / "quarantine.toml"
QUARANTINED, QUARANTINE_DAYS = 10, 30
FLAKY_SHARE = 0.02
CONFIRMED = ROOT / ".ci" / "recordings.sha256"
"""The digest of the recordings that Kafka has confirmed last: the step `recordings` is for others."""
RECORDED = ("coordinatord/testing/conform/stories", "tests/reference", "tests/server/access", "tests/golden")


@dataclass
class Step:
    """Shell commands that are all run. `foreign`: tests of foreign programs, so failed ones are repeated."""

    name: str
    commands: list[str]
    foreign: bool = False
    status: int | None = None
    seconds: float = 0
    cpu_s: float = 0
    passed: int = 0
    broken: list[str] = field(default_factory=list)
    flaky: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def cache(self) -> Path:
        return LOGS / "cache" / self.name

    def failed_tests(self) -> list[str]:
        """The tests that pytest remembers as failed."""
        path = self.cache / "v" / "cache" / "lastfailed"
        return sorted(json.loads(path.read_text())) if path.exists() else []

    def run(self, more: str = "") -> int:
        """Run the commands, with `more` arguments one test after the other; return the first exit status but 0."""
        began_s, failed = time.monotonic(), 0
        environment = {**os.environ, "CI": "true", "PYTHONUNBUFFERED": "1"}
        environment["PYTEST_ADDOPTS"] = f"-o cache_dir={self.cache} --durations=5 --durations-min=1 {more}"
        # Hundreds of processes import the same modules, and would compile them anew each time.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self.log.open("ab") as log:
            for command in self.commands:
                if more:  # a worker of xdist does not know what has failed, and would repeat all
                    command = re.sub(r" -n \d+( --dist \w+)?", "", command)
                process = subprocess.Popen(
                    ["timeout", "-k", "30", str(STEP_S), "bash", "-euo", "pipefail", "-c", command],
                    cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                )  # fmt: skip
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s += used.ru_utime + used.ru_stime
                failed = failed or process.returncode
        self.seconds += time.monotonic() - began_s
        return failed

    def first(self) -> None:
        """Run for the first time, and print the output."""
        print(f"=== {self.name} begins", flush=True)
        self.status = self.run()
        output = self.log.read_text(errors="replace")
        self.passed = sum(map(int, re.findall(r"(\d+) passed", output)))
        print(f"{output.rstrip()}\n=== {self.name}: {self.verdict} in {self.seconds:.0f} s", flush=True)

    def repeat(self) -> None:
        """Repeat the failed tests of foreign programs twice, by themselves."""
        failed = self.failed_tests()
        if not (self.status and self.foreign and failed):
            return
        said = dict(re.findall(r"^(?:FAILED|ERROR) (\S+?)(?: - (.*))?$", self.log.read_text(errors="replace"), re.M))
        for _ in range(2):
            self.status = self.run("--last-failed")
            self.broken = self.failed_tests()
            if not self.broken:
                break
        self.flaky = {test: said.get(test, "") for test in failed if test not in self.broken}
        if self.broken and set(self.broken) <= quarantined():
            self.status = 0

    @property
    def verdict(self) -> str:
        return "left out" if self.status is None else "FAILED" if self.status else "passed"


def quarantined() -> set[str]:
    """The tests of quarantine.toml whose entries have not ended."""
    entries = tomllib.loads(QUARANTINE.read_text()).get("quarantined", [])
    if len(entries) > QUARANTINED:
        sys.exit(f"{QUARANTINE}: {len(entries)} entries, {QUARANTINED} at most")
    for entry in entries:
        if not entry["cause"] or entry["end"] - entry["date"] > datetime.timedelta(QUARANTINE_DAYS):
            sys.exit(f"{QUARANTINE}: {entry['test']} needs a cause, and an end {QUARANTINE_DAYS} days later at most")
    return {entry["test"] for entry in entries if entry["end"] >= datetime.date.today()}


def digest() -> str:
    """The digest of all recordings of Kafka's answers."""
    found = hashlib.sha256()
    files = subprocess.run(["git", "ls-files", *RECORDED], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.splitlines():
        if not name.endswith((".py", ".md", ".java")):
            found.update(f"{name}\n".encode() + (ROOT / name).read_bytes())
    return found.hexdigest()


PYTEST = ".venv/bin/python -m pytest -q"
FRESH = "build/fresh/bin/python -m pytest -q -n 2"
OWN = "not reference and not clients and not compose and not spark and not browser and not hostile and not postgresql"
SLOW = (
    "tests/broker/log tests/coordination/group tests/monitoring/offsets_log tests/reference tests/server/fastpath "
    "tests/server/workers tests/testing/simulation tests/test_*.py"
)
# The hot modules (setup.py) and what calls them, as C. The C compiler's optimisation, which takes minutes, changes
# nothing that tests see.
COMPILE = "MYPYC_OPT_LEVEL=0 make compiled"
AS_C = (
    "tests/base/observe tests/broker/log tests/broker/topics tests/coordination tests/crash tests/handlers "
    "tests/protocol tests/reference tests/server/exchange tests/server/fastpath tests/test_*.py"
)
WITHOUT_BROKER = " ".join(
    f"tests/reference/test_{name}.py"
    for name in (
        "assignors", "declarations", "expressions", "java_messages", "metadata_hash", "old_values", "server_assignors",
        "settings", "share_coordinator",
    )
)  # fmt: skip
TRUTH = "tests/monitoring/pipeline/spark/test_truth.py -k few"
PAGE = "tests/monitoring/pipeline/browser/test_live_page.py"
LIBRDKAFKA = "tests/clients/families/test_librdkafka_suite.py"
LONG = "--timeout 900"

SMOKED = "'Apache Kafka' kafka-python aiokafka confluent-kafka 'Java client 4' franz-go"
SET_UP = Step("set-up", ["make .venv/.ci generate", "bash .ci/tools.sh"])
FETCH = ".venv/bin/python -m tests.clients.families.fetch_tools"

Lane = list[Step]
Stage = list[Lane]


def gate() -> list[Stage]:
    """The gate: own code beside what depends on no other program's timing, then one look at each foreign client."""
    own = [
        # In an environment with nothing but their own packages: as on a machine where nothing has been installed yet.
        Step("lint", ["make lint VENV=build/fresh"]),
        Step("quick", ["make test VENV=build/fresh"]),
        Step("slow", [f"{FRESH} {SLOW} -m 'slow and not full and {OWN}'"]),
    ]
    others = [
        SET_UP,
        Step("tools", [f"{FETCH} {SMOKED}"]),
        Step("compiled", [COMPILE, f"make test COMPILED=1 TESTS='{AS_C}'"]),
        Step("postgresql", [f"{PYTEST} tests/server/postgresql -n 2 -m 'postgresql and not full and not spark'"]),
        Step("java", [f"{PYTEST} {WITHOUT_BROKER} -m reference"]),
        Step("spark", [f"{PYTEST} {TRUTH}"]),
    ]
    return [[own, others], [[Step("smoke", [f"{PYTEST} tests/smoke", f"{PYTEST} {PAGE}"])]]]


def full() -> list[Stage]:
    """The full run: everything that the gate leaves out; what compares times or has short deadlines, by itself."""
    waiting = [
        Step("spark", [f"{PYTEST} tests/monitoring/pipeline -m spark {LONG}"], foreign=True),
        Step("browser", [f"{PYTEST} tests/monitoring/pipeline -m browser {LONG}"], foreign=True),
        Step("compose", [f"{PYTEST} tests/compose -m compose {LONG}"], foreign=True),
        Step("postgresql", [f"{PYTEST} tests/server/postgresql -m 'postgresql and full and not spark'"], foreign=True),
    ]
    clients = "clients and not reference and not alone and not wheel_of_c"
    workers = "tests/clients/test_kafka_python_*.py tests/clients/test_exactly_once.py --workers 2"
    others = [
        Step("clients", [f"{PYTEST} -m '{clients}' --ignore {LIBRDKAFKA} -n 4 {LONG}"], foreign=True),
        Step(
            "reference",
            [f"{PYTEST} -m 'reference and not browser and not alone and not recordings' -n 3 --dist loadfile {LONG}"],
            foreign=True,
        ),
        Step("workers", [f"{PYTEST} {workers} -n 3 {LONG}"], foreign=True),
        Step("wheel", [COMPILE, f"{PYTEST} tests/clients/test_wheel.py -m wheel_of_c {LONG}"]),
    ]
    alone = [
        Step("own", [f"{PYTEST} -m 'full and {OWN}' -n 2"]),
        Step("hostile", [f"{PYTEST} tests/hostile -m hostile {LONG}"]),
        Step("librdkafka", [f"{PYTEST} {LIBRDKAFKA} -n 8 {LONG}"], foreign=True),
        Step("alone", [f"{PYTEST} -m 'alone and not recordings'"], foreign=True),
    ]
    if not CONFIRMED.exists() or CONFIRMED.read_text().strip() != digest():
        alone.append(Step("recordings", [f"{PYTEST} tests/reference -m recordings"], foreign=True))
    return [[[SET_UP, Step("all-tools", [FETCH])]], [waiting, others], [alone]]


def by_name() -> Stage:
    """Steps that are in neither run, because they take hours."""
    command = ".venv/bin/python -m tests.kafka_suites"
    suites = ("kafka_2.13", "kafka-tools", "kafka-clients-integration-tests")
    runs = [f"{command} run {side} {suite}" for side in ("kafka", "coordinatord") for suite in suites]
    return [[Step("kafka-suites", [*runs, f"{command} table"])]]


def chosen(names: Sequence[str]) -> list[Stage]:
    """The stages that the command line asks for; exits with a sentence if there is no such step."""
    if names in ([], ["full"]):
        return full() if names else gate()
    known: dict[str, Step] = {}
    for stage in (*gate(), *full(), by_name()):
        for lane in stage:
            for step in lane:
                known.setdefault(step.name, step)
                if known[step.name].commands != step.commands:
                    known[step.name].commands += step.commands
    if unknown := set(names) - known.keys():
        sys.exit(f".ci/run: there is no step {', '.join(sorted(unknown))}; there are {', '.join(known)}, and full")
    return [[[SET_UP]], [[known[name] for name in names if name != SET_UP.name]]]


def play(lane: Lane) -> None:
    for step in lane:
        step.first()
        if step is SET_UP and step.status:
            return


def report(steps: Sequence[Step], seconds: float) -> str:
    lines = ["", f"{'step':12} {'seconds':>8} {'CPU s':>8} {'passed':>7}  verdict"]
    for step in steps:
        lines.append(f"{step.name:12} {step.seconds:8.0f} {step.cpu_s:8.0f} {step.passed:7}  {step.verdict}")
        lines += [f"    flaky   {test}" for test in step.flaky]
        lines += [f"    broken  {test}" for test in step.broken]
    lines.append(f"{'in all':12} {seconds:8.0f} {sum(step.cpu_s for step in steps):8.0f}")
    return "\n".join(lines)


def main(names: list[str]) -> int:
    """Run the steps; return the exit status."""
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    began_s = time.monotonic()
    steps = []
    for stage in chosen(names):
        steps += [step for lane in stage for step in lane]
        threads = [threading.Thread(target=play, args=[lane]) for lane in stage]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if SET_UP.status:
            break
    for step in steps:
        step.repeat()
    flaky = {test: line for step in steps for test, line in step.flaky.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    with FLAKY.open("a") as file:
        for test, line in flaky.items():
            entry = {"test": test, "date": str(datetime.date.today()), "commit": commit.strip(), "line": line}
            file.write(json.dumps(entry) + "\n")
    for step in steps:
        if step.name == "recordings" and not step.status:
            CONFIRMED.write_text(digest() + "\n")
    print(report(steps, time.monotonic() - began_s))
    for step in steps:
        if step.status:
            lines = step.log.read_text(errors="replace").splitlines()
            said = [line[:300] for line in lines if line.startswith(("E   ", "FAILED ", "ERROR ", "Timeout"))]
            print(f"\n=== {step.name} failed:", *(said[-40:] or lines[-40:]), sep="\n")
    too_flaky = len(flaky) > FLAKY_SHARE * sum(step.passed for step in steps)
    if too_flaky:
        print(f"\n=== {len(flaky)} flaky tests are more than {FLAKY_SHARE:.0%} of all")
    return 1 if too_flaky or any(step.status is None or step.status for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
