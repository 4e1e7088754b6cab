"""State that metrics read at each scrape, on the admin thread. Each read is quick and changes nothing."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator
    from coordinatord.coordination.service.ledger import Ledger
    from coordinatord.server.daemon.assembled import Assembled
    from coordinatord.server.daemon.group_status import GroupStatus

MAX_ENDED = 20_000
"""Largest number of ended rebalances kept between two reads by a watcher; beyond it, the last ones are counted."""


def watch(daemon: Assembled) -> None:
    """Register the reads. `daemon` is an assembled daemon.Daemon."""
    add, coordinator = daemon.metrics.watch, daemon.coordinator
    add("group_count", lambda: _group_counts(coordinator))
    add("classic_group_count", coordinator.state_counts)
    add("consumer_group_count", coordinator.consumer_state_counts)
    add("member_count", coordinator.member_counts)
    add("offset_count", coordinator.offset_count)
    add("unread_records", lambda: {what: float(count) for what, count in list(coordinator.unread.items())})
    add("num_partitions", coordinator.partitions.counts)
    add("event_loop_longest_turn_seconds", daemon.metrics.longest_turn.read)
    add("timers", lambda: daemon.timers.count)
    connections = daemon.connections.open
    add("event_queue_size", lambda: sum(each.waiting_count for each in list(connections)))
    parked = daemon.runtime.parked
    add("held_replies", lambda: parked.held_count + sum(each.line.held_count for each in list(connections)))
    add("parked_replies", lambda: sum(each.line.parked is not None for each in list(connections)))
    add("load_progress_ratio", lambda: daemon.loading.ratio)
    add("load_duration_seconds", lambda: daemon.loading.elapsed_seconds)
    add("load_records_per_second", lambda: daemon.loading.records_per_second)
    add("topics", lambda: len(daemon.topics.catalogue.by_name))
    add("topic_partitions", lambda: daemon.topics.catalogue.partition_count)
    add("fetch_sessions", lambda: daemon.topics.fetch_sessions)
    add("connections", lambda: len(connections))


def _group_counts(coordinator: Coordinator) -> dict[str, float]:
    consumer = sum(coordinator.consumer_state_counts().values())
    share = sum(coordinator.share_state_counts().values())
    counts = {"classic": len(coordinator.actors) - consumer - share, "consumer": consumer}
    return {**counts, "share": share} if share else counts


def put_pages(daemon: Assembled) -> None:
    """Serve the ledger's page, and the series and the live page of monitoring/dashboard/, on the admin port. The admin
    thread imports the modules that these need, so a daemon's start does not.
    """
    admin, ledger = daemon.admin, daemon.ledger
    assert admin is not None
    if ledger is not None:
        ledger.watched = deque(maxlen=MAX_ENDED)
        admin.add_page("/rebalances", "rebalances", lambda query: _rebalances(daemon, ledger, query))

    @cache
    def watched() -> GroupStatus:
        from coordinatord.server.daemon.group_status import GroupStatus

        return GroupStatus(daemon)

    admin.add_collector(lambda: watched().collector())
    admin.add_part("/groups", lambda *request: watched().part(*request))
    admin.list_page("/groups/", "who is behind and why, live")


def _rebalances(daemon: Assembled, ledger: Ledger, query: dict[str, list[str]]) -> object:
    """Return rebalances under way, and ended ones, newest first. Called on the admin thread."""
    group_id = query.get("group", [None])[0]
    actors = list(daemon.coordinator.actors.values())
    opened = [ledger.open(actor.group) for actor in actors if group_id in (None, actor.group.group_id)]
    return {"under_way": [each for each in opened if each is not None], "recent": ledger.recent(group_id)}
