"""Run the tiers of the tests, as many side by side as the machine has cores for, and tell what each one took.

Each tier writes its output to build/ci/TIER.log; it is printed when the tier ends, so that the outputs do not mix. A
tier that fails fails the run, but not before the others have told what they know. Uses the standard library alone: it
is what installs the rest.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "ci"
CORES = max(2, os.cpu_count() or 2)
SLOWEST = 5
"""How many tests of each tier are named at the end."""

PYTEST = f".venv/bin/python -m pytest -q --durations={SLOWEST} --durations-min=0.5"
TOOLS = r"""
missing=()
command -v java >/dev/null && command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
.venv/bin/python -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || missing+=(python3-dev)
command -v g++ >/dev/null && command -v make >/dev/null || missing+=(g++ make)
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
command -v kcat >/dev/null || missing+=(kcat)
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
"""

SLOW = "slow and not reference and not clients and not compose and not spark and not browser"


@dataclass(frozen=True, slots=True)
class Tier:
    """Shell commands, one after the other; the first that fails ends the tier.

    `{gate}` in them keeps what is left to `all` out. `cores` says how many it keeps busy: what mostly waits counts as
    less than it has processes. `needs` are tiers that have to be over before.
    """

    name: str
    about: str
    commands: Sequence[str]
    cores: float = 2
    needs: Sequence[str] = ()


SET_UP = (
    Tier("packages", "set-up: Python's", ["make .venv/.test .venv/.lint .venv/.clients .venv/.spark"]),
    Tier("tools", "set-up: Java, Maven, Node, kcat, Chromium", [TOOLS], needs=["packages"]),
)
TIERS = (
    Tier("lint", "ruff, mypy --strict, import rules", ["make lint"]),
    Tier("quick", "tests that need Python alone", ["make test"]),
    Tier("slow", "long tests that need nothing else", [f"{PYTEST} -m '{SLOW}{{gate}}' --timeout 900 -n 2"]),
    Tier(
        "reference",
        "beside Apache Kafka itself",
        # A module shares a broker of Kafka's, with foreign clients too.
        [f"{PYTEST} -m 'reference and not alone{{gate}}' --timeout 900 -n 2 --dist loadfile"],
    ),
    Tier(
        "clients",
        "foreign clients",
        [f"{PYTEST} -m 'clients and not reference and not alone{{gate}}' --timeout 900 -n 2"],
    ),
    # What compares times with Kafka's has the machine to itself.
    Tier("alone", "what compares times with Kafka's", [f"{PYTEST} -m 'alone{{gate}}' --timeout 3600"], cores=CORES),
    Tier("spark", "the pipeline on Spark", [f"{PYTEST} -m spark --timeout 900"]),
    Tier("browser", "the report in Chromium", [f"{PYTEST} -m browser --timeout 900"]),
    Tier("compose", "containers", [f"{PYTEST} -m compose --timeout 900"]),
    Tier(
        "workers",
        "the daemon as two nodes: kafka-python's tests, and exactly once through the kills of single workers",
        [
            f"{PYTEST} tests/clients/test_kafka_python_*.py tests/clients/test_exactly_once.py --workers 2 "
            "--timeout 900 -n 2"
        ],
    ),
    Tier(
        "compiled",
        "the hot modules as C",
        [
            "make test COMPILED=1",
            'cd build/compiled && PYTHONPATH="$PWD/protocol" ../../.venv/bin/python -m pytest -q '
            "tests/clients/test_kafka_python_*.py tests/crash --timeout 900 -n 2",
        ],
    ),
)


@dataclass(slots=True)
class Run:
    """One tier of this run. `seconds` is None until it has ended."""

    tier: Tier
    commands: Sequence[str]
    seconds: float | None = None
    status: int = 0
    thread: threading.Thread | None = None
    slowest: list[str] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.tier.name}.log"

    def run(self, environment: dict[str, str]) -> None:
        began_s = time.monotonic()
        with self.log.open("wb") as log:
            for command in self.commands:
                self.status = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", command],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode
                if self.status:
                    break
        self.seconds = time.monotonic() - began_s

    @property
    def verdict(self) -> str:
        return "passed" if self.status == 0 else "FAILED"


def slowest(output: str) -> list[str]:
    """The slowest tests that pytest names, each once: seconds and name."""
    took: dict[str, float] = {}
    for seconds, name in re.findall(r"^ *([\d.]+)s (?:setup|call|teardown) +(\S.*)$", output, re.MULTILINE):
        took[name] = took.get(name, 0) + float(seconds)
    longest = sorted(took.items(), key=lambda one: -one[1])[:SLOWEST]
    return [f"{seconds:7.1f} s  {name}" for name, seconds in longest]


def chosen(names: Sequence[str]) -> tuple[list[Tier], bool]:
    """The tiers of these names, and whether in full; exits with a sentence if there is no such tier."""
    known = {tier.name: tier for tier in TIERS}
    in_full = "all" in names
    asked = [name for name in names if name != "all"]
    if unknown := [name for name in asked if name not in known]:
        sys.exit(f".ci/run: there is no tier {', '.join(unknown)}; there are {', '.join(known)}, and all")
    return [known[name] for name in asked] if asked else list(TIERS), in_full


def play(runs: list[Run], environment: dict[str, str]) -> None:
    """Begin each as soon as there are cores for it and what it needs is over, in the given order."""
    waiting, running = list(runs), list[Run]()
    free = threading.Semaphore(0)
    printing = threading.Lock()

    def begin(it: Run) -> None:
        try:
            it.run(environment)
        except BaseException as error:
            it.status, it.seconds = 1, it.seconds or 0.0
            it.log.open("a").write(f"\n{error!r}\n")
        output = it.log.read_text(errors="replace")
        it.slowest = slowest(output)
        with printing:
            print(output.rstrip("\n"))
            print(f"=== {it.tier.name}: {it.verdict} in {it.seconds:.0f} s", flush=True)
        free.release()

    while waiting or running:
        for it in list(waiting):
            busy = sum(min(one.tier.cores, CORES) for one in running)
            is_ready = not any(one.tier.name in it.tier.needs for one in [*waiting, *running])
            if not is_ready:
                continue
            if running and busy + min(it.tier.cores, CORES) > CORES:
                break  # the order holds: what comes later does not overtake for ever
            waiting.remove(it)
            running.append(it)
            with printing:
                print(f"=== {it.tier.name} begins: {it.tier.about}", flush=True)
            it.thread = threading.Thread(target=begin, args=[it])
            it.thread.start()
        free.acquire()
        running = [one for one in running if one.seconds is None]


def table(runs: Sequence[Run], seconds: float) -> str:
    """What each tier took, and its slowest tests."""
    lines = ["", f"{'tier':12} {'seconds':>8}  verdict"]
    lines += [f"{it.tier.name:12} {it.seconds or 0:8.0f}  {it.verdict}" for it in runs]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines += [f"{'in all':12} {seconds:8.0f}  {used.ru_utime + used.ru_stime:.0f} s of {CORES} cores", ""]
    for it in runs:
        if it.slowest:
            lines += [f"slowest of {it.tier.name}:", *it.slowest]
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Runs the tiers; the exit status."""
    tiers, in_full = chosen(names)
    LOGS.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CI": "true", "PYTHONUNBUFFERED": "1"}
    if in_full:
        environment["COORDINATORD_TESTS_SHARE"] = "all"
    began_s = time.monotonic()
    print(f"=== {'in full' if in_full else 'the gate' if not names else 'some tiers'}, on {CORES} cores", flush=True)
    gate = "" if in_full else " and not in_full"
    runs = [Run(tier, [each.replace("{gate}", gate) for each in tier.commands]) for tier in (*SET_UP, *tiers)]
    for it in runs[: len(SET_UP)]:
        play([it], environment)
        if it.status:
            break
    else:
        play(runs[len(SET_UP) :], environment)
    runs = [it for it in runs if it.seconds is not None]
    print(table(runs, time.monotonic() - began_s))
    failed = [it.tier.name for it in runs if it.status]
    if failed:
        print(f"\n=== failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
