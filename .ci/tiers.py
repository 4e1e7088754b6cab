"""Run the tiers of the tests, as many side by side as the machine has cores for, and tell what each one took.

Each tier writes its output to build/ci/TIER.log; it is printed when the tier ends, so that the outputs do not mix. A
tier that fails fails the run, but not before the others have told what they know. Uses the standard library alone: it
is what installs the rest.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
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
GATE_S = 80 * 60
"""What still runs then is killed and has failed, and the others are told: the gate is cut off after 90 minutes."""
SLOWEST = 5
"""How many tests of each tier are named at the end."""
TELLING = ("E   ", "FAILED ", "ERROR tests", "Timeout (", "Thread 0x", '  File "')
"""What lines begin with that say why tests failed: pytest's own, and what tests/stuck.py says of one that is stuck."""
MOST_ERRORS = 40
MOST_OF_A_LINE = 300
"""Lines, and characters of each, that are told again at the end of a tier that has failed."""

PYTEST = f".venv/bin/python -m pytest -q --durations={SLOWEST} --durations-min=0.5"
TOOLS = r"""
missing=()
command -v java >/dev/null && command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
"${PYTHON:-python3}" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || missing+=(python3-dev)
command -v g++ >/dev/null && command -v make >/dev/null || missing+=(g++ make)
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
command -v kcat >/dev/null || missing+=(kcat)
[ -e /usr/lib/postgresql ] || command -v initdb >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
if ! command -v promtool >/dev/null; then  # not the package: it starts a server
    [ ${#missing[@]} -gt 0 ] || apt-get update -qq
    folder=$(mktemp -d)
    (cd "$folder" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb .)
    install "$folder/usr/bin/promtool" /usr/local/bin/
    rm -r "$folder"
fi
"""

SLOW = (
    "slow and not reference and not clients and not compose and not spark and not browser and not hostile "
    "and not postgresql"
)


@dataclass(frozen=True, slots=True)
class Tier:
    """Shell commands, all of which are run, one after the other.

    `{gate}` in them keeps what is left to `all` out. `cores` says how many it keeps busy: tests with clients and with
    Kafka wait most of the time, whatever `-n` says. The table at the end tells what each used. `needs` are tiers that
    have to be over before. `in_full` is what `all` runs instead of the commands.
    """

    name: str
    about: str
    commands: Sequence[str]
    cores: float = 1
    needs: Sequence[str] = ()
    in_full: Sequence[str] = ()


# What mypyc can change is tested again as C: the hot modules and what calls them (setup.py), by tests that ask for
# details. The other quick tests would tell nothing new; nor would more of kafka-python's than show that it works. Each
# test function is called, with every fifth of its rows.
AS_C = (
    "tests/exchange tests/group tests/handlers tests/log tests/observe tests/protocol tests/reference tests/runtime "
    "tests/shortcuts tests/topics tests/transactions tests/test_*.py tests/crash tests/clients/test_recorded.py "
    "tests/clients/test_kafka_python_groups.py"
)
COMPILE = "MYPYC_OPT_LEVEL=0 make compiled"
"""What the modules do as C is the same without the C compiler's optimisation, which takes minutes."""
IN_COMPILED = 'cd build/compiled && PYTHONPATH="$PWD/protocol" ../../'

WAITING = ("tests/clients/families/test_librdkafka_suite.py", "tests/reference/test_recordings.py")
VALIDATION = "tests/simulation/test_validation.py"
NEITHER = " ".join(f"--ignore {path}" for path in (*WAITING, VALIDATION))

SET_UP = (
    Tier("packages", "set-up: Python's in .venv, and the generated codecs", ["make .venv/.ci generate"]),
    Tier("tools", "set-up: Java, Maven, Node, kcat, PostgreSQL, Chromium", [TOOLS]),
    Tier(
        "downloads",
        "set-up: Kafka, clients",
        [".venv/bin/python -m tests.clients.families.fetch_tools"],
        cores=0.5,
        needs=["packages", "tools"],
    ),
)
TIERS = (
    # The longest one, which is one process after the other: first.
    Tier(
        "spark",
        "the pipeline on Spark",
        [f"{PYTEST} -m 'spark{{gate}}' --timeout 900"],
        cores=0.5,
        needs=["packages", "downloads"],
    ),
    Tier("lint", "ruff, mypy --strict, import rules", ["make lint"], cores=0.5, needs=["packages"]),
    # In an environment of its own: as on a machine where nothing else has been installed yet.
    Tier("quick", "tests that need Python alone", ["make test VENV=build/fresh"], needs=["packages"]),
    Tier(
        "clients",
        "foreign clients: most of it is waiting",
        [f"{PYTEST} -m 'clients and not reference and not alone and not wheel_of_c{{gate}}' --timeout 900 -n 4"],
        cores=0.5,
        needs=["packages", "downloads"],
    ),
    Tier(
        "slow",
        "long tests that need nothing else",
        [f"{PYTEST} -m '{SLOW}{{gate}}' --timeout 900 -n 2"],
        cores=0.5,
        needs=["packages"],
    ),
    Tier(
        "hostile",
        "hostile neighbours: what others have to wait, and what one peer can make the daemon hold",
        [f"{PYTEST} -m hostile --timeout 900"],
        cores=CORES,  # it measures how long others wait
        needs=["packages"],
    ),
    Tier(
        "reference",
        "beside Apache Kafka itself",
        # A module shares a broker of Kafka's, with foreign clients too.
        [f"{PYTEST} -m 'reference and not alone{{gate}}' --timeout 900 -n 3 --dist loadfile"],
        cores=0.5,
        needs=["packages", "downloads"],
    ),
    Tier(
        "workers",
        "the daemon as two nodes: kafka-python's tests, and exactly once through the kills of single workers",
        [
            f"{PYTEST} tests/clients/test_kafka_python_*.py tests/clients/test_exactly_once.py --workers 2 "
            "--timeout 900 -n 3"
        ],
        cores=0.5,
        needs=["packages", "downloads"],
    ),
    Tier(
        "compiled",
        "the hot modules as C",
        [
            COMPILE,
            f"make test COMPILED=1 TESTS='{AS_C} --rotate 5 --durations={SLOWEST}'",
            f"{IN_COMPILED}{PYTEST} tests/crash -m slow -k always-False --timeout 900",
            f"{PYTEST} tests/clients/test_wheel.py -m wheel_of_c --timeout 900",
        ],
        cores=0.5,
        needs=["packages", "tools"],
        in_full=[
            COMPILE,
            f"make test COMPILED=1 TESTS=--durations={SLOWEST}",
            f"{IN_COMPILED}{PYTEST} tests/crash -m slow --timeout 900 -n 2",
            f"{PYTEST} tests/clients/test_wheel.py -m wheel_of_c --timeout 900",
        ],
    ),
    Tier("browser", "the report in Chromium", [f"{PYTEST} -m browser --timeout 900"], needs=["packages", "tools"]),
    Tier(
        "postgresql",
        "the log on PostgreSQL: its own server, nodes that take over, kills of both",
        [f"{PYTEST} -m 'postgresql and not spark' --timeout 900"],
        cores=0.5,
        needs=["packages", "tools"],
    ),
    Tier("compose", "containers", [f"{PYTEST} -m compose --timeout 900"], cores=0.5, needs=["packages"]),
    # What compares times with Kafka's has the machine to itself. The stories of the validation wait for each other's
    # members, and nothing else: both brokers at the same time. librdkafka's tests wait, too, for deadlines of a second.
    Tier(
        "alone",
        "what compares times with Kafka's",
        [
            f"{PYTEST} -m 'alone{{gate}}' {' '.join(WAITING)} --timeout 3600 -n 2",
            f"{PYTEST} -m 'alone{{gate}}' {NEITHER} --timeout 3600",
            f"{PYTEST} -m 'alone{{gate}}' {VALIDATION} --timeout 3600 -n 2",
        ],
        cores=CORES,
        needs=["packages", "downloads"],
    ),
)


@dataclass(slots=True)
class Run:
    """One tier of this run. `seconds` is None until it has ended."""

    tier: Tier
    commands: Sequence[str]
    seconds: float | None = None
    cpu_s: float = 0
    status: int = 0
    slowest: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return LOGS / f"{self.tier.name}.log"

    def run(self, environment: dict[str, str], until_s: float) -> None:
        """Run the commands, and kill what runs at `until_s` of the monotonic clock."""
        began_s = time.monotonic()
        with self.log.open("wb") as log:
            for command in self.commands:
                self.process = process = subprocess.Popen(
                    ["bash", "-euo", "pipefail", "-c", command],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                )
                timer = threading.Timer(max(0.0, until_s - time.monotonic()), self.kill)
                timer.daemon = True
                timer.start()
                _, status, used = os.wait4(process.pid, 0)
                timer.cancel()
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode == -signal.SIGKILL:
                    log.write(b"\nkilled: the gate has no more time\n")
                self.cpu_s += used.ru_utime + used.ru_stime
                self.status = self.status or process.returncode
        self.seconds = time.monotonic() - began_s

    def kill(self) -> None:
        """Kill the command with all that it has started in its process group."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def is_over(self) -> bool:
        return self.seconds is not None

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


def errors(output: str) -> list[str]:
    """What pytest says of failures, as a reader of the end alone needs it; of another program, its last lines."""
    lines = output.splitlines()
    told = [line[:MOST_OF_A_LINE] for line in lines if line.startswith(TELLING)]
    return told[-MOST_ERRORS:] or lines[-MOST_ERRORS:]


def chosen(names: Sequence[str]) -> tuple[list[Tier], bool]:
    """The tiers of these names, and whether in full; exits with a sentence if there is no such tier."""
    known = {tier.name: tier for tier in TIERS}
    in_full = "all" in names
    asked = [name for name in names if name != "all"]
    if unknown := [name for name in asked if name not in known]:
        sys.exit(f".ci/run: there is no tier {', '.join(unknown)}; there are {', '.join(known)}, and all")
    return [known[name] for name in asked] if asked else list(TIERS), in_full


def set_up_for(tiers: Sequence[Tier]) -> list[Tier]:
    """What has to be there for these tiers."""
    needed = {name for tier in tiers for name in tier.needs}
    needed |= {name for tier in SET_UP if tier.name in needed for name in tier.needs}
    return [tier for tier in SET_UP if tier.name in needed]


def play(runs: Sequence[Run], environment: dict[str, str], until_s: float) -> None:
    """Begin each as soon as there are cores for it and what it needs is over; those first that come first."""
    waiting = list(runs)
    running: list[Run] = []
    ended: queue.Queue[Run] = queue.Queue()

    def go(it: Run) -> None:
        try:
            it.run(environment, until_s)
        except Exception as error:
            it.status = 1
            it.log.write_text(f"{error!r}\n")
        ended.put(it)

    while waiting or running:
        for it in list(waiting):
            before = {one.tier.name for one in (*waiting, *running)}
            failed = [one.tier.name for one in runs if one.is_over and one.status and one.tier.name in it.tier.needs]
            if failed:
                waiting.remove(it)
                it.status, it.seconds = 1, 0.0
                print(f"=== {it.tier.name}: left out, for {', '.join(failed)} failed", flush=True)
            elif not before & set(it.tier.needs) and (not running or it.tier.cores <= CORES - busy(running)):
                waiting.remove(it)
                running.append(it)
                print(f"=== {it.tier.name} begins: {it.tier.about}", flush=True)
                threading.Thread(target=go, args=[it], daemon=True).start()
        if not running:
            continue
        it = ended.get()
        running.remove(it)
        output = it.log.read_text(errors="replace")
        it.slowest = slowest(output)
        print(output.rstrip("\n"))
        print(f"=== {it.tier.name}: {it.verdict} in {it.seconds:.0f} s", flush=True)


def busy(running: Sequence[Run]) -> float:
    return sum(one.tier.cores for one in running)


def table(runs: Sequence[Run], seconds: float) -> str:
    """What each tier took, and its slowest tests."""
    lines = ["", f"{'tier':12} {'seconds':>8} {'of a core':>9}  verdict"]
    lines += [f"{it.tier.name:12} {it.seconds or 0:8.0f} {it.cpu_s:9.0f}  {it.verdict}" for it in runs]
    lines += [f"{'in all':12} {seconds:8.0f} {sum(it.cpu_s for it in runs):9.0f}  on {CORES} cores", ""]
    for it in runs:
        if it.slowest:
            lines += [f"slowest of {it.tier.name}:", *it.slowest]
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Runs the tiers; the exit status."""
    tiers, in_full = chosen(names)
    LOGS.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CI": "true", "PYTHONUNBUFFERED": "1"}
    # Hundreds of processes import the same modules. An image may forbid Python to keep what it compiled: each of them
    # would compile all again, for half the time of a daemon's start and most of the time of pytest's.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if in_full:
        environment["COORDINATORD_TESTS_SHARE"] = "all"
    began_s = time.monotonic()
    print(f"=== {'in full' if in_full else 'the gate' if not names else 'some tiers'}, on {CORES} cores", flush=True)
    gate = "" if in_full else " and not in_full"
    runs = []
    for tier in (*set_up_for(tiers), *tiers):
        commands = (in_full and tier.in_full) or tier.commands
        runs.append(Run(tier, [each.replace("{gate}", gate) for each in commands]))
    try:
        play(runs, environment, threading.TIMEOUT_MAX if in_full else began_s + GATE_S)
    except KeyboardInterrupt:
        for it in runs:
            it.kill()
        raise
    print(table(runs, time.monotonic() - began_s))
    failed = [it for it in runs if it.status]
    for it in failed:
        if not it.seconds:  # left out: it has said nothing
            continue
        print(f"\n=== {it.tier.name} failed:", *errors(it.log.read_text(errors="replace")), sep="\n")
    if failed:
        print(f"\n=== failed: {' '.join(it.tier.name for it in failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
