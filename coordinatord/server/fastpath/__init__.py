"""Shortcuts: responses to requests that repeat an earlier one, without decoding them.

A consumer sends the same heartbeat again and again, and commits the same partitions with other offsets. Each shortcut
is one module here, made for one version of an API (`Shortcut` in transport/net/routes.py is the contract):

    answer(connection, frames, first, stop)   responds to the request, or does nothing: then it takes the full path
    learn(context, request, buf, start, end)  is called after a request of the full path has been handled

A shortcut stores a request and the `Group.version` at that moment; while the version is unchanged, the group accepts
the same bytes again. `learn` does not receive the response: it applies the group's own rules to the request
(`commit_refusal`, `steady`, `refusal`; a stricter rule for commits of consumer groups) and learns only a request that
they accept now. Neither the core nor any handler depends on shortcuts: without them every response is the same, and the
tests replay whole histories both ways.

    heartbeats.py           the same bytes except for the correlation id
    consumer_heartbeats.py  the counterpart for the consumer protocol
    commits.py              the same bytes except for offsets, leader epochs and the partitions' order
    commit_shape.py         the conversion of such a commit's bytes to records

With an authorizer a request counts as the same only from the same principal at the same address
(`Connection.identity`), and every change of ACLs discards all stored requests: see
coordinatord/server/access/authorized_fastpath.py.

Each shortcut must pay off for the traffic of real clients: tests/golden/traffic records how often each one responds,
and tests/clients/test_steady_heartbeats.py plays librdkafka's consumer protocol.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.coordination.service.groups import Coordinator
from coordinatord.server.fastpath.commit_shape import FIRST_VERSION
from coordinatord.server.fastpath.commits import Commits, Topics
from coordinatord.server.fastpath.consumer_heartbeats import ConsumerHeartbeats
from coordinatord.server.fastpath.heartbeats import Heartbeats
from coordinatord.transport.net.routes import ShortcutMaker
from kafka_wire.api_key import ApiKey


def shortcuts(coordinator: Coordinator, topics: Topics) -> Mapping[int, ShortcutMaker]:
    """Return the makers of the shortcuts, by API key."""
    return {
        ApiKey.HEARTBEAT: lambda codec: Heartbeats(codec, coordinator),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda codec: ConsumerHeartbeats(codec, coordinator),
        ApiKey.OFFSET_COMMIT: lambda codec: (
            Commits(codec, coordinator, topics) if codec.api_version >= FIRST_VERSION else None
        ),
    }
