"""Shortcuts: requests that say what was said before are answered from their bytes.

A consumer sends the same heartbeat over and over, and commits the same partitions with other numbers. Each shortcut is
one module here, made for one version of an API (`Shortcut` in net/routes.py is the contract):

    answer(connection, frames, first, stop)   answers the request, or has done nothing: then it goes the ordinary way
    learn(context, request, buf, start, end)  sees what has gone the ordinary way, once it has been handled

A shortcut decides nothing. It remembers a request that was accepted, with `Group.version` of that moment; the same
bytes are accepted again as long as the version has not moved. None of the core, and no handler, knows that there are
shortcuts: without them everything is answered the same, and the tests play whole histories both ways.

    heartbeats.py   the same bytes but for the correlation id
    commits.py      the same bytes but for offsets and leader epochs

Each of them has to earn its place on what real clients send: tests/golden/traffic says how often they answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.coordinator.groups import Coordinator
from coordinatord.net.routes import ShortcutMaker
from coordinatord.shortcuts.commits import Commits, Topics
from coordinatord.shortcuts.heartbeats import Heartbeats
from kafka_wire.api_key import ApiKey
from kafka_wire.commit_shape import FIRST_VERSION


def shortcuts(coordinator: Coordinator, topics: Topics) -> Mapping[int, ShortcutMaker]:
    """What makes them, by API key."""
    return {
        ApiKey.HEARTBEAT: lambda codec: Heartbeats(codec, coordinator),
        ApiKey.OFFSET_COMMIT: lambda codec: (
            Commits(codec, coordinator, topics) if codec.api_version >= FIRST_VERSION else None
        ),
    }
