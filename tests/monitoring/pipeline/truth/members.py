"""What the tables of rebalances and members have to be: as model.py, for rebalances, members, member_events, churn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.monitoring.pipeline.truth.model import SEVERITY, Model, about, some_text
from tests.monitoring.pipeline.truth.world import SESSION_MS, Group, Life, Made, Place

Row = dict[str, Any]
HOUR_MS = 3_600_000
STORM, STORM_MS, ZOMBIE_MS = 5, 600_000, 300_000


class MembersModel(Model):
    """The tables of a world that are about its members."""

    def times(self, group: Group, place: Place) -> list[int]:
        """When a partition was committed, by whomever."""
        return [each.at_ms for each in self.writes(group, place) if each.offset is not None]

    def joined_ms(self, made: Made) -> int:
        return made.at_ms - 100 if made.owned else made.at_ms

    # members

    def members(self) -> dict[tuple[str, str], Row]:
        found = {}
        for group in self.world.all_groups:
            for life in group.lives:
                inside = [made for made in group.made if life.member_id in made.owned]
                commits = [
                    each.at_ms
                    for each in self.world.written
                    if each.group == group.name and each.by == life.member_id and each.is_committed
                ]
                found[group.name, life.member_id] = {
                    "group_id": group.name, "member_id": life.member_id, "instance": life.instance,
                    "client_id": life.client_id, "host": "/h", "since_ms": inside[0].at_ms, "until_ms": life.until_ms,
                    "lived_ms": None if life.until_ms is None else life.until_ms - inside[0].at_ms,
                    "end": life.end if self._is_told(group, life, inside[-1]) else "went", "generations": len(inside),
                    "partitions": len(inside[-1].owned[life.member_id]),
                    "last_commit_ms": max(commits, default=None), "session_timeout_ms": SESSION_MS,
                }  # fmt: skip
        return found

    def _is_told(self, group: Group, life: Life, last: Made) -> bool:
        """Whether there are commits of its partitions, by which alone one can tell how a member ended."""
        if life.until_ms is None or life.end == "replaced":
            return True
        return any(
            time_ms < life.until_ms for place in last.owned[life.member_id] for time_ms in self.times(group, place)
        )

    # rebalances

    def rebalances(self) -> dict[tuple[str, int], Row]:
        return {
            (group.name, after.number): self._rebalance(group, before, after)
            for group in self.world.all_groups
            for before, after in zip([None, *group.made], group.made, strict=False)
        }

    def _rebalance(self, group: Group, before: Made | None, after: Made) -> Row:
        joined_ms = self.joined_ms(after)
        ids, ids_before = set(after.owned), set(before.owned) if before is not None else set()
        row: Row = {
            "group_id": group.name, "group_type": "classic", "generation": after.number,
            "generation_before": None if before is None else before.number,
            "outcome": "completed" if after.owned else "empty",
            "began_ms": None if before is None else lambda value: before.at_ms <= value <= joined_ms,
            "began_after_ms": None if before is None else before.at_ms, "began_before_ms": joined_ms,
            "joined_ms": joined_ms, "ended_ms": after.at_ms, "initial": before is not None and not before.owned,
            "protocol": "range" if after.owned else None, "leader": next(iter(after.owned), None),
            "members_before": None if before is None else len(ids_before), "members": len(ids),
            "added": len(ids - ids_before), "removed": len(ids_before - ids), "kept": len(ids & ids_before),
            "skipped_generations": 0, "client_reason": None, "cause": some_text, "how": "inferred",
        }  # fmt: skip
        if before is None:
            names = (
                "partitions_before", "partitions_moved", "partitions_revoked", "stickiness", "missed_commit_ms",
                "trigger", "trigger_member_id", "trigger_client_id", "confidence",
            )  # fmt: skip
            return row | dict.fromkeys(names)
        return row | self._moved(group, before, after) | self._trigger(group, before, after)

    def _owners(self, group: Group, made: Made) -> dict[Place, str]:
        """By instance if there is one: that stays the same when a static member restarts."""
        names = {life.member_id: life.instance or life.member_id for life in group.lives}
        return {place: names[member_id] for member_id, owned in made.owned.items() for place in owned}

    def _moved(self, group: Group, before: Made, after: Made) -> Row:
        old, new = self._owners(group, before), self._owners(group, after)
        late = [self._late(self.times(group, place), after.at_ms) for place in old]
        known = [each for each in late if each is not None]
        return {
            "partitions_before": len(old),
            "partitions_moved": sum(place in new and new[place] != owner for place, owner in old.items()),
            "partitions_revoked": len(old.keys() - new.keys()),
            "stickiness": sum(new.get(p) == o for p, o in old.items()) / len(old) if old else None,
            "missed_commit_ms": sum(known) if known else None,
        }

    @staticmethod
    def _late(times: list[int], at_ms: int) -> int | None:
        """The gap around a time, less the median of the last gaps before it."""
        earlier, later = [ms for ms in times if ms <= at_ms], [ms for ms in times if ms > at_ms]
        gaps = sorted(b - a for a, b in pairwise(earlier[-10:]))
        if not earlier or not later or not gaps:
            return None
        return max(0, later[0] - earlier[-1] - gaps[len(gaps) // 2])

    def _trigger(self, group: Group, before: Made, after: Made) -> Row:
        life = next(life for life in group.lives if life.member_id == after.who)
        if after.why in ("member left", "session expired") and not self._is_told(group, life, before):
            return {
                "trigger": "member left", "trigger_member_id": life.member_id, "trigger_client_id": life.client_id,
                "confidence": lambda value: value <= 0.5,
            }  # fmt: skip
        return {
            "trigger": after.why, "trigger_member_id": after.who, "trigger_client_id": life.client_id,
            "confidence": lambda value: 0.5 < value <= 1,
        }  # fmt: skip

    def churn(self) -> dict[tuple[str, int], Row]:
        found: dict[tuple[str, int], Row] = {}
        hours: dict[tuple[str, int], list[Row]] = {}
        for (group, _), row in self.rebalances().items():
            hours.setdefault((group, row["ended_ms"] // HOUR_MS * HOUR_MS), []).append(row)

        def total(rows: list[Row], name: str) -> int | None:
            known = [row[name] for row in rows if row[name] is not None]
            return sum(known) if known else None

        for (group, hour_ms), rows in hours.items():
            found[group, hour_ms] = {
                "group_id": group, "hour_ms": hour_ms, "rebalances": len(rows), "added": total(rows, "added"),
                "removed": total(rows, "removed"), "members": about(sum(row["members"] for row in rows) / len(rows)),
                "partitions_moved": total(rows, "partitions_moved"),
                "missed_commit_ms": total(rows, "missed_commit_ms"),
            }  # fmt: skip
        return found

    # member_events

    def member_events(self) -> dict[tuple[str, str, int], Row]:
        found = {}
        for group in self.world.all_groups:
            rows = [*self._storms(group), *self._zombies(group)]
            if group is self.world.loop:
                lives = [life for life in group.lives if life.client_id == "loops"]
                last = lives[-1].until_ms
                rows.append(self._event("crash loop", lives[0].since_ms, last, "loops", "/h", len(lives)))
            if group is self.world.deploy:
                gone, new = group.lives[:3], group.lives[3:]
                rows.append(self._event("deploy", gone[0].until_ms, new[-1].since_ms, None, None, 3))
            for row in rows:
                found[group.name, row["kind"], row["began_ms"]] = {"group_id": group.name, **row}
        return found

    def with_trouble(self, row: Row) -> Row:
        """A row of group_status as it has to be said: a storm that is not over is worse than some statuses. The crash
        loop is long over.
        """
        kinds = {
            kind
            for (name, kind, _), event in self.member_events().items()
            if name == row["group_id"] and self.now_ms - event["ended_ms"] <= STORM_MS
        }
        assert "crash loop" not in kinds
        is_worse = SEVERITY.index(row["status"]) < SEVERITY.index("near loss")
        return row | {"status": "storm", "why": some_text} if "storm" in kinds and not is_worse else row

    @staticmethod
    def _event(
        kind: str, began_ms: int | None, ended_ms: int | None, client_id: str | None, host: str | None, count: int
    ) -> Row:
        return {
            "kind": kind, "began_ms": began_ms, "ended_ms": ended_ms, "client_id": client_id, "host": host,
            "count": count, "text": some_text,
        }  # fmt: skip

    def _storms(self, group: Group) -> list[Row]:
        times = [made.at_ms for made in group.made]
        inside = {
            number
            for first in range(len(times) - STORM + 1)
            if times[first + STORM - 1] - times[first] <= STORM_MS
            for number in range(first, first + STORM)
        }
        starts = [n for n in inside if n - 1 not in inside]
        joins = [
            n
            for n in inside
            if n - 1 in inside
            and not any(
                first < n <= first + STORM - 1 and times[first + STORM - 1] - times[first] <= STORM_MS
                for first in range(len(times) - STORM + 1)
            )
        ]
        found = []
        bounds = sorted([*starts, *joins])
        for begin, end in pairwise([*bounds, len(times)]):
            last = max(n for n in inside if begin <= n < end)
            found.append(self._event("storm", times[begin], times[last], None, None, last - begin + 1))
        return found

    def _zombies(self, group: Group) -> list[Row]:
        newest_ms = max((ms for place in group.places for ms in self.times(group, place)), default=None)
        found = []
        for life in group.lives:
            if life.until_ms is not None or life.instance is None or newest_ms is None:
                continue
            if not group.made[-1].owned[life.member_id]:
                continue
            row = self.members()[group.name, life.member_id]
            since_ms = row["last_commit_ms"] or row["since_ms"]
            if newest_ms - since_ms >= ZOMBIE_MS:
                found.append(self._event("zombie static member", since_ms, newest_ms, life.client_id, "/h", 1))
        return found
