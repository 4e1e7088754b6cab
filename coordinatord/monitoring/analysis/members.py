"""The lives of a group's members, and patterns among them: crash loops, deployments, storms, zombies.

A life lasts from the first generation with a member id to the first without it. A restarted process is a new member; a
process is recognized by its instance id, or else by client id and host.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordinatord.monitoring.analysis.generations import HEARTBEAT_MS, Commits, Generation, Member
from coordinatord.monitoring.analysis.rebalances import doubt_of_expiry, silence_ms, stopped_polling

MINUTE_MS = 60_000
LOOP_LIVES = 3
"""Number of short lives of one client in a row that are a crash loop."""
SHORT_LIFE_MS = 5 * MINUTE_MS
LOOP_GAP_MS = 10 * MINUTE_MS
"""A loop ends when the client is absent for longer than this, or lives longer than a short life."""
DEPLOY_MS = 10 * MINUTE_MS
"""Longest gap between restarts of one deployment, which needs at least half of the members, and at least two."""
STORM_REBALANCES, STORM_MS = 5, 10 * MINUTE_MS
ZOMBIE_MS = 5 * MINUTE_MS

LEFT, EXPIRED, REPLACED, WENT = "left", "expired", "replaced", "went"
CRASH_LOOP, DEPLOY, STORM, ZOMBIE = "crash loop", "deploy", "storm", "zombie static member"


@dataclass(slots=True)
class Life:
    """The life of one member. `until_ms` is None while it lasts; `end` is the kind of its end, if the log shows it."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    since_ms: int
    until_ms: int | None
    end: str | None
    generations: int
    partitions: int
    last_commit_ms: int | None
    session_timeout_ms: int

    @property
    def process(self) -> tuple[str, str]:
        """Identity of the process; it stays the same when the process restarts."""
        return (self.instance, "") if self.instance is not None else (self.client_id, self.host)

    @property
    def lived_ms(self) -> int | None:
        return None if self.until_ms is None else self.until_ms - self.since_ms


@dataclass(frozen=True, slots=True)
class Event:
    """An event for operators: its `kind`, its period, and its client, if it is about one."""

    kind: str
    began_ms: int
    ended_ms: int
    client_id: str | None
    host: str | None
    count: int
    text: str


class Lives:
    """Members' lives, generation by generation."""

    def __init__(self) -> None:
        self.found: list[Life] = []
        """All lives, in the order of their starts."""
        self.present: dict[str, Life] = {}
        self._before: Generation | None = None

    def take(self, after: Generation | None, commits: Commits, until_ms: int, *, is_same: bool = False) -> None:
        """Add the log's next generation, or None for a deletion; the previous generation ended at `until_ms`.
        `is_same`: `after` is the last generation again, with more details.
        """
        members = {} if after is None else after.members
        before, present = self._before, self.present
        if before is not None and not is_same:
            _note_commits(present, before, until_ms, commits)
        for member_id in [each for each in present if each not in members]:
            life = present.pop(member_id)
            if after is None or before is None or member_id not in before.members:
                life.until_ms, life.end = (before.at_ms if before is not None else life.since_ms), WENT
            else:
                life.until_ms = after.at_ms
                life.end = _how_it_went(before.members[member_id], before, after, commits)
        if after is not None:
            for member_id, member in members.items():
                if member_id not in present:
                    present[member_id] = life = _born(member, after.at_ms)
                    self.found.append(life)
                    life.generations = int(is_same)
                present[member_id].generations += not is_same
                present[member_id].partitions = len(member.assigned)
        self._before = after

    def note(self, commits: Commits) -> None:
        """Store the commits of the last generation so far."""
        if self._before is not None:
            _note_commits(self.present, self._before, EVER_MS, commits)


def lives(log: Sequence[Generation | None], commits: Commits) -> list[Life]:
    """Return all members' lives in the log, in the order of their starts."""
    found = Lives()
    for number, after in enumerate(log):
        found.take(after, commits, _end_ms(log, number))
    found.note(commits)
    return found.found


EVER_MS = 1 << 62


def _end_ms(log: Sequence[Generation | None], number: int) -> int:
    """Return the end of the generation before index `number`; the log has no time for a group's deletion."""
    return next((each.at_ms for each in log[number:] if each is not None), EVER_MS)


def _born(member: Member, at_ms: int) -> Life:
    return Life(
        member.member_id, member.instance, member.client_id, member.host, at_ms, None, None, 0, 0, None,
        member.session_timeout_ms,
    )  # fmt: skip


def _note_commits(present: Mapping[str, Life], generation: Generation, until_ms: int, commits: Commits) -> None:
    """Store each member's last commit in a generation, which ended at `until_ms`."""
    for member_id, member in generation.members.items():
        last_ms = commits.last(member.assigned, until_ms)
        if last_ms is not None and last_ms >= generation.at_ms:
            present[member_id].last_commit_ms = last_ms


def _how_it_went(member: Member, before: Generation, after: Generation, commits: Commits) -> str:
    if member.instance is not None and member.instance in after.statics:
        return REPLACED
    joined_ms = after.at_ms if after.joined_ms is None else after.joined_ms
    silence = silence_ms(member, before, joined_ms, commits)
    if silence is None:
        return WENT
    line = member.session_timeout_ms - member.heartbeat_ms
    if silence < line or stopped_polling(member, silence, commits, joined_ms):
        return LEFT
    return EXPIRED if doubt_of_expiry(member, silence, commits, joined_ms) is None else WENT


def how_they_went(found: Iterable[Life]) -> str | None:
    """Return how the last members of a group ended, those that ended at the same time: EXPIRED if the session of one
    of them expired, LEFT if all left. None if there is a member, if there was none, or if it is unknown.
    """
    lived = [(life.until_ms, life.end) for life in found]
    last_ms = max((until_ms for until_ms, _ in lived if until_ms is not None), default=None)
    if last_ms is None or any(until_ms is None for until_ms, _ in lived):
        return None
    ends = {end for until_ms, end in lived if until_ms == last_ms}
    if EXPIRED in ends:
        return EXPIRED
    return LEFT if ends == {LEFT} else None


def events(found: Sequence[Life], log: Sequence[Generation | None], commits: Commits) -> Iterator[Event]:
    """Yield the patterns among the lives, in no particular order."""
    yield from _crash_loops(found)
    yield from _deployments(found, log)
    yield from _storms([each.at_ms for each in _rebalances(log)])
    yield from _zombies(found, commits)


def _rebalances(log: Sequence[Generation | None]) -> Iterator[Generation]:
    number = None
    for generation in log:
        if generation is not None and generation.number != number and (generation.members or number is not None):
            yield generation
        number = None if generation is None else generation.number


def _crash_loops(found: Sequence[Life]) -> Iterator[Event]:
    by_process: dict[tuple[str, str], list[Life]] = {}
    for life in found:
        by_process.setdefault(life.process, []).append(life)
    for same in by_process.values():
        chain: list[Life] = []
        for life in sorted(same, key=lambda each: each.since_ms):
            last_ms = chain[-1].until_ms if chain else None
            if last_ms is not None and not last_ms - HEARTBEAT_MS <= life.since_ms <= last_ms + LOOP_GAP_MS:
                yield from _loop(chain)
                chain = []
            short = life.lived_ms is not None and life.lived_ms <= SHORT_LIFE_MS
            if short:
                chain.append(life)
            else:
                yield from _loop(chain)
                chain = []
        yield from _loop(chain)


def _loop(chain: Sequence[Life]) -> Iterator[Event]:
    if len(chain) < LOOP_LIVES:
        return
    first, last = chain[0], chain[-1]
    assert last.until_ms is not None
    lived = sorted(life.lived_ms or 0 for life in chain)[len(chain) // 2]
    text = (
        f"{first.instance or first.client_id} on {first.host.removeprefix('/')} came {len(chain)} times, "
        f"for {lived / 1000:.0f} s each"
    )
    yield Event(CRASH_LOOP, first.since_ms, last.until_ms, first.client_id, first.host, len(chain), text)


def _deployments(found: Sequence[Life], log: Sequence[Generation | None]) -> Iterator[Event]:
    """Yield deployments: many members that leave and soon return, each once, one shortly after the other."""
    restarts: list[tuple[int, int, Life]] = []
    came: dict[tuple[str, str], deque[Life]] = {}
    for life in sorted(found, key=lambda each: each.since_ms):
        came.setdefault(life.process, deque()).append(life)
    for until_ms, life in sorted(((each.until_ms or 0, each) for each in found), key=lambda each: each[0]):
        if life.until_ms is None:
            continue
        waiting = came[life.process]
        while waiting and (waiting[0] is life or waiting[0].since_ms < until_ms - HEARTBEAT_MS):
            waiting.popleft()  # too early to be this member or any that leaves later
        if waiting and waiting[0].since_ms <= until_ms + DEPLOY_MS:
            restarts.append((until_ms, max(until_ms, waiting.popleft().since_ms), life))
    restarts.sort(key=lambda each: each[:2])
    sizes = [(each.at_ms, len(each.members)) for each in log if each is not None]
    run: list[tuple[int, int, Life]] = []
    for restart in restarts:
        if run and restart[0] > run[-1][1] + DEPLOY_MS:
            yield from _deployment(run, sizes)
            run = []
        run.append(restart)
    yield from _deployment(run, sizes)


def _deployment(run: Sequence[tuple[int, int, Life]], sizes: Sequence[tuple[int, int]]) -> Iterator[Event]:
    """Yield the deployment of a run of restarts, if there is one. `sizes` are the time and the number of members of
    each generation.
    """
    if not run:
        return
    began_ms = run[0][0]
    index = bisect_left(sizes, (began_ms, 0))
    size = sizes[index - 1][1] if index else 0
    old = [life for _, _, life in run if life.since_ms < began_ms]  # members that a loop restarted are younger
    if len(old) >= max(2, size / 2):
        text = f"{len(old)} of {size} members restarted within {(run[-1][1] - began_ms) / 1000:.0f} s"
        yield Event(DEPLOY, began_ms, run[-1][1], None, None, len(old), text)


def _storms(times: Sequence[int]) -> Iterator[Event]:
    """Yield the periods in which each rebalance is one of STORM_REBALANCES within STORM_MS."""
    begin = end = None
    for index in range(STORM_REBALANCES - 1, len(times)):
        first = index - STORM_REBALANCES + 1
        if times[index] - times[first] > STORM_MS:
            continue
        if begin is None or end is None or first > end:
            if begin is not None and end is not None:
                yield _storm(times[begin : end + 1])
            begin = first
        end = index
    if begin is not None and end is not None:
        yield _storm(times[begin : end + 1])


def _storm(times: Sequence[int]) -> Event:
    seconds = (times[-1] - times[0]) / 1000
    return Event(STORM, times[0], times[-1], None, None, len(times), f"{len(times)} rebalances in {seconds:.0f} s")


def _zombies(found: Sequence[Life], commits: Commits) -> Iterator[Event]:
    """Yield static members that hold partitions and no longer commit, while others do."""
    newest_ms = max((int(times[-1]) for times in commits.times.values() if len(times)), default=None)
    for life in found:
        if life.until_ms is not None or life.instance is None or not life.partitions or newest_ms is None:
            continue
        since_ms = life.since_ms if life.last_commit_ms is None else life.last_commit_ms
        if newest_ms - since_ms >= ZOMBIE_MS:
            text = (
                f"{life.instance} holds {life.partitions} partitions and has not committed for "
                f"{(newest_ms - since_ms) / 1000:.0f} s; its session lasts {life.session_timeout_ms / 1000:.0f} s"
            )
            yield Event(ZOMBIE, since_ms, newest_ms, life.client_id, life.host, 1, text)
