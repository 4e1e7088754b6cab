"""This daemon's groups in the form that monitoring/dashboard/ shows, read from the daemon's own memory: the series that
`coordinatord exporter` would make from its log, at its own /metrics, and the live page.

A view is made on request, on the admin thread, and at most once in LOOK_MS: without requests there is no work. So
commits and end offsets are sampled at the times of the views, and a scrape every 15 s is enough for a status. Causes
are observed: the ledger hands over each rebalance that ends.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coordinatord.broker.topics.group_configs import NEVER_MS
from coordinatord.coordination.group.state import NEVER, Group
from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail, rewinds
from coordinatord.monitoring.analysis.current_lag import Now, Partition, standing
from coordinatord.monitoring.analysis.ends import Ends, Tail
from coordinatord.monitoring.analysis.expiry import Expiry, expiries
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.groups import group_now
from coordinatord.monitoring.analysis.history import History
from coordinatord.monitoring.analysis.members import Life
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.status import Members, Rules
from coordinatord.monitoring.dashboard.responses import Answers
from coordinatord.monitoring.dashboard.series import WatchCollector
from coordinatord.monitoring.dashboard.trends import Trends
from coordinatord.monitoring.dashboard.view import Deadline, Ending, GroupView, Limits, View, add_point
from coordinatord.server.daemon.share_status import ShareStatus
from kafka_wire.errors import DecodeError
from kafka_wire.records.consumer_assignment import decode_assignment

if TYPE_CHECKING:
    from coordinatord.server.daemon.assembled import Assembled

LIMITS = Limits(partitions=5_000)
"""A view of this many partitions takes a second of the admin thread."""
LOOK_MS = 2_000
MAX_DEADLINES = 200

Key = tuple[str, str, int]


class GroupStatus:
    """The groups of an assembled daemon."""

    def __init__(self, daemon: Assembled) -> None:
        self._daemon = daemon
        self._rules = Rules()
        self._lock = threading.Lock()
        self._view: View | None = None
        self._trends = Trends()
        listeners = daemon.settings.advertised_listeners or daemon.settings.listeners
        self._answers = Answers(
            self.view,
            self._cluster,
            daemon.now_ms,
            lambda: None,
            self._whole,
            trends=self._trends,
            bootstrap=listeners[0].address,
        )
        self._shares = ShareStatus(daemon, self._rules)
        self._trails: dict[Key, Trail] = {}
        self._points: dict[TopicPartition, list[Point]] = {}
        self._histories: dict[str, History] = {}
        self._assigned: dict[str, tuple[Any, Mapping[str, tuple[str, frozenset[TopicPartition]]]]] = {}
        self._known: dict[str, dict[str, tuple[str, int, int | None]]] = {}
        """Host, number of partitions and last commit of members, by group and member id; also of former members."""

    def collector(self) -> WatchCollector:
        """Return the collector of /metrics."""
        return WatchCollector(self.view, self._cluster, self._daemon.now_ms)

    def part(self, method: str, path: str, query: Mapping[str, str], token: str) -> tuple[int, object]:
        """Return the status and the body of a response for /groups."""
        return self._answers.part(method, path, query, token)

    def _cluster(self) -> str:
        return str(self._daemon.data.cluster_id)

    def view(self) -> View:
        """Return the view of the groups, at most LOOK_MS old. Called on threads of the admin port."""
        with self._lock:
            now_ms = self._daemon.now_ms()
            if self._view is None or not 0 <= now_ms - self._view.at_ms < LOOK_MS:
                self._view = self._look(now_ms)
                self._trends.add(self._view)
            return self._view

    def _look(self, now_ms: int) -> View:
        ledger = self._daemon.ledger
        while ledger is not None and ledger.watched:
            record = ledger.watched.popleft().whole()
            self._history(record["group"]).observed(record)
        actors = list(self._daemon.coordinator.actors.values())
        found: dict[str, GroupView] = {}
        endings: dict[TopicPartition, Ends] = {}
        room, left_out = LIMITS.partitions, 0
        seen: set[Key] = set()
        for actor in actors[: LIMITS.groups]:
            group = actor.group
            keys = self._committed(group)
            places = sorted(keys.union(*(places for _, places in self._members(group).values())))
            rows = []
            members = self._members_now(group)
            for topic, number in places[:room]:
                seen.add((group.group_id, topic, number))
                rows.append(self._standing(group, members, topic, number, endings, now_ms))
            left_out += len(places) - len(rows)
            room -= len(rows)
            view = self._group(group, rows, members, now_ms)
            found[group.group_id] = view if group.share is None else self._shared(group, view, endings, now_ms)
        self._shares.forget(now_ms)
        self._forget(found, seen, endings)
        told = [Ending(*place, ends.log_start_offset, ends.end_offset) for place, ends in sorted(endings.items())]
        return View(now_ms, found, told, max(0, len(actors) - LIMITS.groups), left_out)

    def _shared(self, group: Group, view: GroupView, endings: dict[TopicPartition, Ends], now_ms: int) -> GroupView:
        """Return the view of a share group with its share partitions."""

        def partition_of(topic: str, number: int) -> Partition:
            return self._partition((topic, number), endings, now_ms)

        found = self._shares.window(group, partition_of, now_ms)
        return replace(
            view,
            now=group_now(found.rows) if found.rows else None,
            rows=found.rows,
            deliveries=found.deliveries,
            acquired=found.acquired,
        )

    def _forget(self, groups: dict[str, GroupView], seen: set[Key], endings: dict[TopicPartition, Ends]) -> None:
        for key in self._trails.keys() - seen:
            del self._trails[key]
        for place in self._points.keys() - endings.keys():
            del self._points[place]
        for name in self._histories.keys() - groups.keys():
            del self._histories[name]
        for name in self._assigned.keys() - groups.keys():
            del self._assigned[name]
        for name in self._known.keys() - groups.keys():
            del self._known[name]

    def _history(self, group_id: str) -> History:
        return self._histories.setdefault(group_id, History())

    def _committed(self, group: Group) -> set[TopicPartition]:
        """Return the partitions with committed offsets, and add the last commits to their trails."""
        found: set[TopicPartition] = set()
        history = self._history(group.group_id)
        for topic, partitions in list(group.offsets.items()):
            for number, value in list(partitions.items()):
                place = (topic, number)
                found.add(place)
                trail = self._trails.setdefault((group.group_id, *place), Trail(self._rules.window_ms))
                commit = Commit(value.offset, value.commit_timestamp, None)
                if value.offset >= 0 and trail.last != commit:
                    trail.add(commit)
                    history.committed(place, [value.commit_timestamp])
        return found

    def _members(self, group: Group) -> Mapping[str, tuple[str, frozenset[TopicPartition]]]:
        """Return each member's host and assigned partitions, decoded again when these may have changed."""
        consumer = group.consumer
        if consumer is None:
            version: Any = (group.generation_id, group.state)
        else:
            version = (consumer.epoch, consumer.assignment_epoch, len(consumer.unreconciled))
        known = self._assigned.get(group.group_id)
        if known is not None and known[0] == version:
            return known[1]
        found: dict[str, tuple[str, frozenset[TopicPartition]]] = {}
        if consumer is not None:
            names = self._daemon.topics.catalogue.by_id
            for each in list(consumer.members.values()):
                places = [
                    (names[topic_id].name, number)
                    for topic_id, partitions in list(each.assigned.items())
                    for number in list(partitions)
                    if topic_id in names
                ]
                found[each.member_id] = (each.client_host, frozenset(places))
        for member in list(group.members.values()):
            found[member.member_id] = (member.client_host, _assigned(group, member.assignment))
        self._assigned[group.group_id] = (version, found)
        return found

    def _lives(self, group: Group, history: History) -> list[Life]:
        """Return the members' lives. The ledger lacks their hosts, partitions and last commits: these are added for
        members that a view has contained.
        """
        known = self._known.setdefault(group.group_id, {})
        for member_id, (host, places) in self._members(group).items():
            times = [history.times[place][-1] for place in places if place in history.times]
            known[member_id] = (host, len(places), max(times, default=None))
        told = []
        for life in history.lives():
            host, partitions, last_ms = known.get(life.member_id, ("", 0, None))
            last_ms = None if last_ms is None or last_ms < life.since_ms else last_ms
            told.append(replace(life, host=host, partitions=partitions, last_commit_ms=last_ms))
        for member_id in known.keys() - {life.member_id for life in told}:
            del known[member_id]
        return told

    def _members_now(self, group: Group) -> Members:
        """Return the group's members in the form that the rules need."""
        size, consumer = _size(group), group.consumer
        if group.share is not None:
            return Members(bool(size), topics=frozenset(group.share.subscribed_topics()))
        if size and consumer is None:
            return Members(True, topics=group.subscribed_topics)
        if size and consumer is not None:
            return Members(True, topics=frozenset().union(*map(consumer.topics_of, list(consumer.members.values()))))
        if group.protocol_type is None and consumer is None:
            return Members()  # only offsets are stored
        since_ms = group.current_state_timestamp_ms
        return Members(False, since_ms if since_ms >= 0 else None, self._history(group.group_id).went())

    def _standing(
        self,
        group: Group,
        members: Members,
        topic: str,
        number: int,
        endings: dict[TopicPartition, Ends],
        now_ms: int,
    ) -> Now:
        partition = self._partition((topic, number), endings, now_ms)
        trail = self._trails.setdefault((group.group_id, topic, number), Trail(self._rules.window_ms))
        return standing(group.group_id, trail, partition, now_ms, members=members, rules=self._rules)

    def _partition(self, place: TopicPartition, endings: dict[TopicPartition, Ends], now_ms: int) -> Partition:
        ends = endings.get(place) or self._ends(place, now_ms)
        if ends is None:
            return Partition(*place)
        endings[place] = ends
        return Partition.of(*place, ends, self._points[place])

    def _ends(self, place: TopicPartition, now_ms: int) -> Ends | None:
        """Return the partition's ends; only the worker that leads the partition has them."""
        partition = self._daemon.topics.catalogue.partition(*place)
        if partition is None or not partition.is_here:
            return None
        tail = Tail(stable_offset=partition.first_unstable_offset)
        config = partition.log.config
        keeps = config.retention_ms if "delete" in config.cleanup_policy and config.retention_ms >= 0 else None
        ends = Ends(partition.log.log_start_offset, partition.log.high_watermark, now_ms, tail, keeps)
        add_point(self._points.setdefault(place, []), Point(ends.end_offset, now_ms))
        return ends

    def _group(self, group: Group, rows: list[Now], members: Members, now_ms: int) -> GroupView:
        history = self._history(group.group_id)
        places = [(row.topic, row.partition) for row in rows]
        trails = {place: self._trails[group.group_id, *place] for place in places}
        is_simple = group.protocol_type is None and group.consumer is None and group.share is None
        return GroupView(
            group_id=group.group_id,
            group_type=_type(group),
            now=group_now(rows) if rows else None,
            rows=rows,
            members=None if is_simple else _size(group),
            commits=None,
            causes=dict(history.counts),
            trouble=severity.under_way(history.events(), now_ms),
            events=history.events(),
            rebalances=tuple(history.rebalances),
            lives=self._lives(group, history),
            waiting=self._waiting(group),
            owners=self._owners(group),
            rewinds=rewinds(trails),
            expiries=self._expiries(group, members, trails),
        )

    def _expiries(self, group: Group, members: Members, trails: Mapping[TopicPartition, Trail]) -> list[Expiry]:
        kept_ms = self._daemon.topics.group_configs.retention_ms(group.group_id)
        explicit = {
            (topic, number): value.expire_timestamp
            for topic, partitions in list(group.offsets.items())
            for number, value in list(partitions.items())
            if value.expire_timestamp >= 0
        }
        return expiries(_type(group), members, trails, None if kept_ms >= NEVER_MS else kept_ms, explicit)

    def _owners(self, group: Group) -> dict[TopicPartition, tuple[str, str]]:
        clients = {each.member_id: each.client_id for each in list(group.members.values())}
        if group.consumer is not None:
            clients |= {each.member_id: each.client_id for each in list(group.consumer.members.values())}
        return {
            place: (clients[member_id], host)
            for member_id, (host, places) in self._members(group).items()
            if member_id in clients
            for place in places
        }

    def _waiting(self, group: Group) -> dict[str, Any] | None:
        ledger = self._daemon.ledger
        opened = None if ledger is None else ledger.open(group)
        if opened is None:
            return None
        clients = {each.member_id: each.client_id for each in list(group.members.values())}
        waits_for = [each if isinstance(each, str) else each.get("member_id") for each in opened["waits_for"] if each]
        return {"began_ms": opened["began_ms"], "waits_for": [clients.get(each, each) for each in waits_for]}

    def _whole(self, view: GroupView) -> GroupView:
        """Return `view` with the current deadlines."""
        actor = self._daemon.coordinator.actors.get(view.group_id)
        return view if actor is None else replace(view, deadlines=_deadlines(actor.group))


def _assigned(group: Group, data: bytes) -> frozenset[TopicPartition]:
    """Return a classic member's assigned partitions; none if the assignment is not of the consumer protocol."""
    if group.protocol_type != "consumer" or not data:
        return frozenset()
    try:
        return frozenset(decode_assignment(data))
    except DecodeError:
        return frozenset()


def _size(group: Group) -> int:
    modern = group.share or group.consumer
    return len(group.members) if modern is None else len(modern.members)


def _type(group: Group) -> str:
    if group.share is not None:
        return "share"
    return "classic" if group.consumer is None else "consumer"


def _deadlines(group: Group) -> list[Deadline]:
    """Return the deadlines of the group and its members. A heartbeat or a commit starts a session again."""
    wait_ms = group.rebalance_timeout_ms()
    told = [
        ("waits no longer for members", "the group", group.join_deadline_ms, wait_ms),
        ("waits no longer for the leader", "the group", group.sync_deadline_ms, wait_ms),
    ]
    silent = "expires without a heartbeat"
    for member in list(group.members.values())[:MAX_DEADLINES]:
        name = member.group_instance_id or member.client_id or member.member_id
        told.append((silent, name, member.session_deadline_ms, member.session_timeout_ms))
    consumer = group.consumer
    for member_id, session in list(consumer.sessions.items())[:MAX_DEADLINES] if consumer is not None else ():
        found = consumer.members.get(member_id) if consumer is not None else None
        name = member_id if found is None else found.instance_id or found.client_id or member_id
        told.append((silent, name, session.deadline_ms, session.timeout_ms))
        if found is not None:
            what = "has to give up partitions, or is removed"
            told.append((what, name, session.revoke_deadline_ms, found.rebalance_timeout_ms))
    return [Deadline(what, who, at_ms, max(1, lasts_ms)) for what, who, at_ms, lasts_ms in told if at_ms < NEVER]
