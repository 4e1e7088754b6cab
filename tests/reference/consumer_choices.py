"""Make our daemon choose what Kafka chose in a random program of both protocols, where nothing but chance or a hash
decides: the ids of members and topics, the leaders of classic groups, and who gets which partition (Kafka's assignors
go by hashes of names of topics, which differ from run to run).

An assignment is taken over only if it is legal: it gives away each partition of the topics that are read once, and only
to members that read the topic, and nobody who could take one has two less than somebody who could give it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.coordination.group.consumer import downgrade, group_epoch
from coordinatord.coordination.group.consumer.assignors.spec import Assignor, GroupSpec, Slices
from coordinatord.coordination.group.state import Group
from tests.reference.consumer_player import ConsumerPlayer
from tests.reference.consumer_steps import SHARED
from tests.reference.in_process import InProcess
from tests.reference.leader_choice import LeaderChoice
from tests.reference.programs import Chosen
from tests.reference.random_player import Choices

_JAVA_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


class IllegalAssignment(AssertionError):
    """Kafka's target is none that our assignor could have computed."""


class StaleType(AssertionError):
    """Kafka takes the group for a homogeneous one because it was one before the step, and the topics of any member for
    those of all. A listed difference.
    """


class ConsumerChoices(LeaderChoice):
    """`player` is the one who plays now, `choices` what Kafka has chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.player: ConsumerPlayer | None = None
        self.choices = Choices()
        self.topic_ids: list[bytes] = []

    def new_id(self) -> str:
        """The random part of a member's id."""
        wanted = self.choices.ids.get(self._asked())
        if wanted is None:
            return f"{secrets.token_hex(4)}-0000-4000-8000-{secrets.token_hex(6)}"
        found = _JAVA_UUID.search(wanted)
        return wanted if found is None else found[0]

    @contextmanager
    def installed(self) -> Iterator[ConsumerChoices]:
        """Within this block every group of this process asks us."""
        write_metadata, assignors, new_id = downgrade.write_metadata, group_epoch.ASSIGNORS, Catalogue.new_id

        def downgraded(group: Group, *arguments: Any) -> Any:
            self.orphaned.add(group.group_id)  # whose leader is the first member in Kafka's hash map
            return write_metadata(group, *arguments)

        def assigned(assign: Assignor, spec: GroupSpec, topics: Any) -> Slices:
            ours = yield from assign(spec, topics)
            wanted = self.choices.targets.get(self._asked())
            if wanted is None or wanted.keys() != spec.members.keys():
                return ours
            return self._target(wanted, ours, spec, topics)

        def topic_id(catalogue: Catalogue) -> bytes:
            if self.topic_ids:
                return self.topic_ids.pop(0)
            wanted = self.choices.topic_ids.get(self._asked())
            return new_id(catalogue) if wanted is None else bytes.fromhex(wanted)

        with ExitStack() as stack:
            stack.enter_context(super().installed())
            stack.enter_context(mock.patch.object(downgrade, "write_metadata", downgraded))
            stack.enter_context(
                mock.patch.object(
                    group_epoch, "ASSIGNORS", {name: partial(assigned, each) for name, each in assignors.items()}
                )
            )
            stack.enter_context(mock.patch.object(Catalogue, "new_id", topic_id))
            yield self

    def _asked(self) -> str:
        return "" if self.player is None else str(self.player.asked)

    def _choose(self, group: Group) -> None:
        wanted = self.choices.leaders.get(self._asked())
        if wanted in group.members and group.members[wanted].join_reply_to is not None:
            group.leader_id = wanted

    def _target(self, wanted: Any, ours: Any, spec: GroupSpec, topics: Any) -> Any:
        assert self.player is not None
        story = self.player.names.story
        found = {}
        for member_id, parts in wanted.items():
            found[member_id] = {}
            for name, numbers in parts.items():
                topic = topics.find(f"{story}.{name}") or topics.find(name)
                if topic is not None:
                    found[member_id][topic.topic_id] = frozenset(numbers)
        try:
            check(found, ours, spec)
        except StaleType:
            self.player.is_comparable = False
            return ours
        return found


def check(found: Any, ours: Any, spec: GroupSpec) -> None:
    """Raises IllegalAssignment."""
    given = sorted(
        (topic, number) for parts in found.values() for topic, numbers in parts.items() for number in numbers
    )
    whole = sorted((topic, number) for parts in ours.values() for topic, numbers in parts.items() for number in numbers)
    strange = [name for name, parts in found.items() if not parts.keys() <= spec.members[name].topic_ids]
    reads_nothing = not all(each.topic_ids for each in spec.members.values())
    if not spec.homogeneous and reads_nothing and (strange or set(given) < set(whole)):
        raise StaleType
    if strange:
        raise IllegalAssignment(f"{strange} get what they do not read: {found}")
    if given != whole:
        raise IllegalAssignment(f"not what there is to give: {given}, {whole}")
    sizes = [sorted(sum(map(len, parts.values())) for parts in one.values()) for one in (found, ours)]
    if spec.homogeneous and sizes[0] != sizes[1]:
        raise IllegalAssignment(f"not as even as ours: {sizes}")


@contextmanager
def choosing(ours: InProcess, topic_ids: Mapping[str, bytes]) -> Iterator[Chosen]:
    """Our daemon chooses what Kafka has chosen; first of all the ids of the topics that all programs read."""
    choice = ConsumerChoices()

    @contextmanager
    def chosen(player: ConsumerPlayer, choices: Choices) -> Iterator[None]:
        choice.player, choice.choices = player, choices
        yield
        choice.player = None

    with choice.installed():
        ours.daemon.coordinator.new_id = choice.new_id
        choice.topic_ids = [topic_ids[name] for name in SHARED]
        yield chosen
