"""Scenario: a deployment, its settings, and its events. One table serves the command line, files and sweeps.

Any error in a scenario is a `BadScenario`; its message is a sentence.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinatord.testing.member.assignors import ASSIGNORS
from coordinatord.testing.simulation.faults import PlannedFault, check_faults, planned_fault
from coordinatord.testing.simulation.units import (
    BadScenario,
    Deploy,
    Planned,
    Rate,
    deploy,
    duration_ms,
    planned,
    rate,
    written_ms,
)

MAX_MEMBERS = 10_000
MAX_PARTITIONS = 100_000
MAX_EVENTS = 1_000
MAX_FAULTS = 100
SEVERAL = {"events": "event", "faults": "fault"}
"""Options that may be given several times, with their names on the command line."""

NO_DEPLOY = Deploy()
NEVER = Rate()


@dataclass(frozen=True, slots=True)
class Scenario:
    """All options of a run; OPTIONS describes them. Times are milliseconds."""

    members: int = 3
    partitions: int = 12
    protocol: str = "classic"
    assignor: tuple[str, ...] = ("range", "cooperative-sticky")
    server_assignor: str = "uniform"
    static: bool = False
    session: int = 45_000
    heartbeat: int = 3_000
    max_poll: int = 300_000
    processing: int = 100
    records: float = 100.0
    consumer_session: int = 45_000
    consumer_heartbeat: int = 5_000
    commit: int = 5_000
    initial_delay: int = 3_000
    assignment_interval: int = 1_000
    latency: int = 2
    flush: int = 2
    duration: int = 3_600_000
    deploy: Deploy = NO_DEPLOY
    deploy_at: int = 60_000
    restart: int = 10_000
    crashes: Rate = NEVER
    pauses: Rate = NEVER
    slow: Rate = NEVER
    events: tuple[Planned, ...] = ()
    faults: tuple[PlannedFault, ...] = ()
    seed: int = 0

    @property
    def is_consumer(self) -> bool:
        """True if the members use the consumer protocol (KIP-848)."""
        return self.protocol == "consumer"


ONLY = {
    "assignor": "classic",
    "session": "classic",
    "heartbeat": "classic",
    "initial-delay": "classic",
    "server-assignor": "consumer",
    "consumer-session": "consumer",
    "consumer-heartbeat": "consumer",
    "assignment-interval": "consumer",
}
"""Options that matter with one protocol only."""


def _whole(minimum: int, maximum: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = str(value).strip().replace("_", "").replace(",", "")
        if not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise BadScenario(f"{str(value)[:40]!r} is not a whole number from {minimum:,} to {maximum:,}")
        return int(text)

    return parse


def _time(minimum_ms: int = 0) -> Callable[[object], int]:
    def parse(value: object) -> int:
        ms = duration_ms(value)
        if ms < minimum_ms:
            raise BadScenario(f"{str(value)[:40]} is too short: {written_ms(minimum_ms)} or more is wanted")
        return ms

    return parse


def _assignors(value: object) -> tuple[str, ...]:
    names = tuple(name.strip() for name in str(value).split("+"))
    for name in names:
        if name not in ASSIGNORS:
            raise BadScenario(f"there is no assignor {name[:40]!r}: use {', '.join(ASSIGNORS)}, or several joined by +")
    return names


def _word(*words: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise BadScenario(f"{str(value)[:40]!r} is not {' or '.join(words)}")
        return word

    return parse


def _flag(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in ("true", "false", "yes", "no"):
        raise BadScenario(f"{str(value)[:40]!r} is not true or false")
    return word in ("true", "yes")


def _amount(value: object) -> float:
    try:
        amount = float(str(value).removesuffix("/s"))
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= 1e9:
        raise BadScenario(f"{str(value)[:40]!r} is not a number of records a second")
    return amount


def _events(value: object) -> tuple[Planned, ...]:
    texts = value if isinstance(value, (list, tuple)) else [each for each in str(value).split() if each]
    if len(texts) > MAX_EVENTS:
        raise BadScenario(f"{len(texts):,} events are more than {MAX_EVENTS:,}")
    return tuple(each if isinstance(each, Planned) else planned(each) for each in texts)


def _faults(value: object) -> tuple[PlannedFault, ...]:
    texts = value if isinstance(value, (list, tuple)) else str(value).split()
    if len(texts) > MAX_FAULTS:
        raise BadScenario(f"{len(texts):,} faults are more than {MAX_FAULTS:,}")
    return tuple(each if isinstance(each, PlannedFault) else planned_fault(each) for each in texts)


@dataclass(frozen=True, slots=True)
class Option:
    """Syntax and meaning of one option."""

    parse: Callable[[object], Any]
    metavar: str
    help: str
    part: str  # section of the help


OPTIONS: dict[str, Option] = {
    "members": Option(_whole(1, MAX_MEMBERS), "N", "Consumers in the group.", "group"),
    "partitions": Option(_whole(1, MAX_PARTITIONS), "N", "Partitions of the topic.", "group"),
    "protocol": Option(
        _word("classic", "consumer"), "NAME", "group.protocol: classic, or consumer (KIP-848), Kafka's next.", "group"
    ),
    "assignor": Option(
        _assignors, "NAME", "range, roundrobin, sticky or cooperative-sticky; several joined by +.", "group"
    ),
    "server-assignor": Option(
        _word("uniform", "range"), "NAME", "uniform or range: the coordinator's, with the consumer protocol.", "group"
    ),
    "static": Option(_flag, "", "Members are static: each has a group.instance.id.", "group"),
    "session": Option(_time(1), "TIME", "session.timeout.ms", "timeouts"),
    "heartbeat": Option(_time(1), "TIME", "heartbeat.interval.ms", "timeouts"),
    "max-poll": Option(_time(1), "TIME", "max.poll.interval.ms, which is the rebalance timeout, too.", "timeouts"),
    "consumer-session": Option(
        _time(1), "TIME", "group.consumer.session.timeout.ms of the coordinator: instead of --session.", "timeouts"
    ),
    "consumer-heartbeat": Option(
        _time(1), "TIME", "group.consumer.heartbeat.interval.ms, instead of --heartbeat.", "timeouts"
    ),
    "assignment-interval": Option(
        _time(), "TIME", "group.consumer.assignment.interval.ms: between two assignments.", "timeouts"
    ),
    "commit": Option(_time(1), "TIME", "auto.commit.interval.ms", "timeouts"),
    "initial-delay": Option(_time(), "TIME", "group.initial.rebalance.delay.ms of the coordinator.", "timeouts"),
    "processing": Option(_time(), "TIME", "How long an application works between two polls.", "work"),
    "records": Option(_amount, "N", "Records a second and partition.", "work"),
    "deploy": Option(
        deploy, "HOW", "none, all (at once), rolling:30s (one member every 30 s), rolling:30s:5 (five).", "what happens"
    ),
    "deploy-at": Option(_time(), "TIME", "When the deployment begins.", "what happens"),
    "restart": Option(_time(), "TIME", "How long a member is down when it is deployed or has crashed.", "what happens"),
    "crashes": Option(
        lambda value: rate(value, timed=False), "N/h", "How often each member crashes: 0.5/h, 2/d.", "what happens"
    ),
    "pauses": Option(
        lambda value: rate(value, timed=True),
        "N/h:TIME",
        "How often each process stands still, and how long (GC): 2/h:10s.",
        "what happens",
    ),
    "slow": Option(
        lambda value: rate(value, timed=True),
        "N/h:TIME",
        "How often an application takes that long for one batch: 1/h:6m.",
        "what happens",
    ),
    "events": Option(
        _events,
        "TIME:WHAT:MEMBER",
        "Something in particular: 10s:crash:3, 1m:pause:0:20s; also stop, start, restart, slow.",
        "what happens",
    ),
    "faults": Option(
        _faults,
        "KIND:API…",
        "Requests go wrong, as in coordinatord.testing: fail:OffsetCommit:NOT_COORDINATOR, delay:SyncGroup:2s, "
        "drop:Heartbeat:after, hold:API, disconnect:API, duplicate:API, blackhole:member-0; which ones: :client=, "
        ":group=, :times=, :nth=, :every=, :probability=; when: :at=1m, :for=30s.",
        "what happens",
    ),
    "latency": Option(_time(), "TIME", "Of the network, one way, of the usual member; some are slower.", "world"),
    "flush": Option(_time(), "TIME", "How long the coordinator's log takes to flush.", "world"),
    "duration": Option(_time(1_000), "TIME", "How long to watch, from when the group has formed.", "world"),
    "seed": Option(_whole(0, 1 << 62), "N", "Decides everything that is left to chance.", "world"),
}


def attribute(name: str) -> str:
    """Return the field of Scenario for an option name."""
    return name.replace("-", "_")


def parse_option(name: str, value: object) -> Any:
    """Return the parsed value of an option. Raises BadScenario with the name of the option."""
    if isinstance(value, bool) and name != "static":
        raise BadScenario(f"{name} takes {OPTIONS[name].metavar}, not {str(value).lower()}")
    try:
        return OPTIONS[name].parse(value)
    except BadScenario as error:
        raise BadScenario(f"{name}: {error}") from None


def written(name: str, value: Any) -> str:
    """Return a value in command-line syntax."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) if name in SEVERAL else "+".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and OPTIONS[name].metavar == "TIME":
        return written_ms(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def build(values: Mapping[str, object]) -> Scenario:
    """Return a scenario from option names and their written values, checked as a whole. Raises BadScenario."""
    fields = {attribute(name): parse_option(name, value) for name, value in values.items()}
    scenario = Scenario(**fields)
    check(scenario)
    return scenario


def check(scenario: Scenario) -> None:
    """Check the constraints between options. Raises BadScenario."""
    heartbeat, session = scenario.heartbeat, scenario.session
    if scenario.is_consumer:
        heartbeat, session = scenario.consumer_heartbeat, scenario.consumer_session
    if heartbeat >= session:
        raise BadScenario(
            f"a heartbeat every {written_ms(heartbeat)} does not keep a session of {written_ms(session)} alive: take a "
            "third of it"
        )
    for event in scenario.events:
        if event.number >= scenario.members:
            raise BadScenario(f"event {event}: members are numbered 0 to {scenario.members - 1}")
        if event.at_ms >= scenario.duration:
            raise BadScenario(f"event {event} comes after the end, at {written_ms(scenario.duration)}")
    check_faults(scenario.faults, scenario.members, scenario.duration)
    if scenario.deploy.kind != "none" and scenario.deploy_at >= scenario.duration:
        raise BadScenario(
            f"the deployment at {written_ms(scenario.deploy_at)} comes after the end, at "
            f"{written_ms(scenario.duration)}: change --deploy-at or --duration"
        )


def changed(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Return a copy of the scenario with other (parsed) values for these options. Raises BadScenario."""
    other = dataclasses.replace(scenario, **{attribute(name): value for name, value in values.items()})
    check(other)
    return other


def read_file(path: Path) -> dict[str, object]:
    """Return the options of a TOML file, as written. Raises BadScenario."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadScenario(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path} is not TOML: {error}") from None
    for name, value in table.items():
        if name not in OPTIONS:
            raise BadScenario(f"{path}: there is no option {name}{_near(name)}")
        if isinstance(value, dict) or (isinstance(value, list) and name not in SEVERAL):
            raise BadScenario(f"{path}: {name} takes one value")
    return table


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    """Parse the argument of --sweep: session=10s,30s,45s. Raises BadScenario."""
    name, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise BadScenario(f"--sweep {text}: write OPTION=VALUE,VALUE, as session=10s,30s,45s")
    if name not in OPTIONS:
        raise BadScenario(f"--sweep {text}: there is no option {name}{_near(name)}")
    if name in SEVERAL:
        raise BadScenario(f"--sweep {text}: {name} cannot be swept")
    parsed = [parse_option(name, value) for value in values.split(",")]
    if len(set(parsed)) < len(parsed):
        raise BadScenario(f"--sweep {text}: a value is there twice")
    return name, parsed


def _near(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, OPTIONS, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(OPTIONS)}"
