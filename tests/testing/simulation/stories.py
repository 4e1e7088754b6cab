"""What is lived through twice, on virtual time and in real time: one of each kind of what befalls groups.

Heartbeats come every two seconds from the moment of a join on, for all members alike, and everything here happens in
the middle between two of them: so little is left to chance that once is enough.
"""

from __future__ import annotations

from coordinatord.testing.simulation.scenario import Scenario, build

USUAL: dict[str, object] = {
    "members": 3,
    "partitions": 6,
    "assignor": "range",
    "session": "11s",
    "heartbeat": "2s",
    "processing": 0,
    "commit": "1h",  # a commit is a sign of life
    "latency": "1ms",
    "duration": "33s",
}
ROLLING: dict[str, object] = {"deploy": "rolling:8s", "deploy-at": "4600ms", "restart": "4s"}
COOPERATIVE: dict[str, object] = {"assignor": "cooperative-sticky"}

STORIES: dict[str, dict[str, object]] = {
    "rolling deployment, eager": ROLLING,
    "rolling deployment, cooperative": ROLLING | COOPERATIVE,
    "rolling deployment, static members": ROLLING | {"static": True},
    "a crash, back before its session ends": {"events": ["4600ms:crash:1"], "restart": "4s"},
    "a crash, back after its session, cooperative": COOPERATIVE | {"events": ["4600ms:crash:1"], "restart": "20s"},
    "a static member stays away for too long": {
        "static": True,
        "session": "8s",
        "events": ["4600ms:stop:1", "16600ms:start:1"],
    },
    "a slow poller": {"heartbeat": "1s", "max-poll": "8100ms", "events": ["4300ms:slow:1:16s"]},
}
"""By name, what differs from USUAL."""

CONSUMER: dict[str, dict[str, object]] = {
    "rolling deployment, static members": ROLLING
    | {"deploy": "rolling:4s", "deploy-at": "2100ms", "restart": "2s", "static": True},
    "a crash, back after its session": {"events": ["2100ms:crash:1"], "restart": "10s"},
    "a static member stays away for too long": {"static": True, "events": ["2100ms:stop:1", "12100ms:start:1"]},
}
"""The same of the consumer protocol. Heartbeats begin when a member joins, so members have their own times for them:
with an interval this short it does not matter which.
"""

CONSUMER_USUAL: dict[str, object] = USUAL | {
    "protocol": "consumer",
    "consumer-session": "6s",
    "consumer-heartbeat": "150ms",
    "assignment-interval": 0,
    "duration": "18s",
}
CONSUMER_STORIES = {name: build(CONSUMER_USUAL | CONSUMER[name]) for name in CONSUMER}

SWEEP = {
    session: build(USUAL | {"session": session, "events": ["4600ms:crash:1"], "restart": "1h", "duration": "28s"})
    for session in ("7s", "11s", "19s")
}
"""A crash that nobody comes back from: what does session.timeout.ms cost then?"""


def story(name: str) -> Scenario:
    return build(USUAL | STORIES[name])


def happenings(scenario: Scenario) -> list[tuple[int, str, int]]:
    """(milliseconds since the group has formed, what, which member), in order; returns of the absent included."""
    found = []
    for event in scenario.events:
        found.append((event.at_ms, event.kind, event.number))
        if event.kind in ("crash", "restart"):
            found.append((event.at_ms + scenario.restart, "start", event.number))
        elif event.kind == "slow":
            found.append((event.at_ms + event.for_ms, "polls again", event.number))
    if scenario.deploy.kind != "none":
        for number in range(scenario.members):
            at_ms = scenario.deploy_at + number // scenario.deploy.size * scenario.deploy.every_ms
            found += [(at_ms, "stop", number), (at_ms + scenario.restart, "start", number)]
    return sorted(each for each in found if each[0] < scenario.duration)
