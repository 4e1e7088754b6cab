"""What was committed and what may be fetched: one register for each partition of each group.

A commit takes effect at some moment between being sent and being answered; one whose answer never came, at some moment
until its bytes cannot arrive any more, or not at all. A fetch must show a commit that no other one has certainly
overwritten: none that was acknowledged before the fetch began and was sent after the first one's time was over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

OPEN = 1 << 62
NOTHING_COMMITTED = -1

REMEMBERED_MS = 700_000
"""How long a commit that was overwritten is kept in mind: it may be what is left after a power failure, and what a
fetch shows whose answer has been under way since. A fetch may have lain behind a join for the rebalance timeout.
"""

ANYTHING = -2
"""A disk has lost what it had not flushed: what is there now may be any older commit, or none."""


@dataclass(slots=True, eq=False)
class Entry:
    """One commit of one partition. Times are the engine's."""

    value: int
    sent_ms: int
    over_ms: int = OPEN  # it takes effect before that, if it does
    acknowledged: bool = False
    overwritten_ms: int = OPEN


@dataclass(slots=True)
class Register:
    """The commits that may still be seen."""

    entries: list[Entry] = field(default_factory=list)
    past: list[Entry] = field(default_factory=list)  # overwritten a moment ago

    def sent(self, value: int, now_ms: int) -> Entry:
        made = Entry(value, now_ms)
        self.entries.append(made)
        return made

    def acknowledged(self, entry: Entry, now_ms: int) -> None:
        """And with it, all that was over before it was sent is overwritten."""
        entry.over_ms, entry.acknowledged = min(entry.over_ms, now_ms), True
        stay = [each for each in self.entries if each is entry or each.over_ms >= entry.sent_ms]
        if len(stay) < len(self.entries):
            self.past = [each for each in self.past if each.overwritten_ms > now_ms - REMEMBERED_MS]
            for each in self.entries:
                if each not in stay:
                    each.overwritten_ms = now_ms
                    self.past.append(each)
            self.entries = stay

    def refused(self, entry: Entry) -> None:
        """It did not take effect."""
        if entry in self.entries:
            self.entries.remove(entry)

    def given_up(self, entry: Entry, now_ms: int) -> None:
        """No answer will come, and its bytes cannot arrive later than now."""
        entry.over_ms = min(entry.over_ms, now_ms)

    def lost(self, now_ms: int, sure_ms: int = 0) -> None:
        """Whatever was acknowledged so far may be gone, but for what was before `sure_ms`."""
        known = sorted(self.past + self.entries, key=lambda each: each.sent_ms)
        self.past.clear()
        sure = [each for each in known if each.acknowledged and each.over_ms <= sure_ms]
        if sure:
            self.entries = [each for each in known if each is sure[-1] or each.over_ms >= sure[-1].sent_ms]
            for each in self.entries:
                each.acknowledged = each is sure[-1]
            return
        for entry in self.entries:
            entry.acknowledged = False
        self.entries.append(Entry(ANYTHING, 0, now_ms))

    def may_be(self, value: int, began_ms: int) -> bool:
        """Whether a fetch that was sent at `began_ms` may show this."""
        known = self.past + self.entries
        certain = [each for each in known if each.acknowledged and each.over_ms <= began_ms]
        if value == NOTHING_COMMITTED and not certain:
            return True
        return any(
            each.value in (value, ANYTHING) and not any(other.sent_ms > each.over_ms for other in certain)
            for each in known
        )

    def told(self) -> str:
        """For people."""
        return ", ".join(self._told(each) for each in self.entries) or "nothing was committed"

    @staticmethod
    def _told(entry: Entry) -> str:
        if entry.value == ANYTHING:
            return "anything older, since a disk has lost it"
        return f"{entry.value} ({'acknowledged' if entry.acknowledged else 'not answered'})"


Key = tuple[str, str, int]
"""Group, topic, partition."""


class History:
    """All registers."""

    def __init__(self) -> None:
        self.registers: dict[Key, Register] = {}

    def __getitem__(self, key: Key) -> Register:
        found = self.registers.get(key)
        if found is None:
            found = self.registers[key] = Register()
        return found

    def of(self, group_id: str) -> Iterator[Register]:
        return (register for key, register in self.registers.items() if key[0] == group_id)
