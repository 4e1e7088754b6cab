"""What a generation has agreed on stays so, whoever asks, and however often its coordinator dies in between.

A leader's assignment is in the log, and so is who led, before anybody is told a share of it. So from the first such
answer on everybody of that generation gets the share that this assignment gives, and hears of this leader, from later
lives of the coordinator, too. Until then nothing is agreed: what was not logged when the coordinator died may come a
second time, with another leader and another assignment. A leader may also send two of them in one generation, if
its first request does not come through; then each answer tells more of which one it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REMEMBERED = 200
"""Generations of a group: the last ones."""

Shares = Mapping[str, bytes]
"""Member id -> its assignment, as the leader has sent it."""


class Agreed:
    """The generations of one group. Static members are not asked: who comes back gets another id, and leads as that."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[int, int], str] = {}  # by generation and life of the coordinator
        self._led: dict[int, tuple[int, str]] = {}  # the same, where a share has been told: (life, leader)
        self._sent: dict[int, list[Shares]] = {}  # those that may be in the log

    def joined(self, life: int, generation_id: int, leader: str) -> str | None:
        """A member is told who leads, maybe late, by an earlier life; what is wrong with that, if anything."""
        _forget_old(self._leaders)
        first = self._leaders.setdefault((generation_id, life), leader)
        since, agreed = self._led.get(generation_id, (life, leader))
        if since <= life and agreed != leader:
            first = agreed
        return None if first == leader else f"generation {generation_id} has two leaders: {first}, {leader}"

    def assigned(self, generation_id: int, shares: Shares) -> None:
        """A leader sends this."""
        _forget_old(self._sent)
        self._sent.setdefault(generation_id, []).append(shares)

    def told(self, life: int, generation_id: int, member_id: str, share: bytes) -> str | None:
        """A member is told its share; what is wrong with that, if anything."""
        if (generation_id, life) in self._leaders:
            self._led.setdefault(generation_id, (life, self._leaders[generation_id, life]))
            _forget_old(self._led)
        sent = self._sent.get(generation_id)
        if sent is None:
            return None
        sent[:] = [shares for shares in sent if shares.get(member_id, b"") == share]
        if sent:
            return None
        return f"{member_id} gets a share of generation {generation_id} that is not of the assignment others have got"


def _forget_old(by_generation: dict[Any, Any]) -> None:
    while len(by_generation) > REMEMBERED:
        del by_generation[next(iter(by_generation))]
