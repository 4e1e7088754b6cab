"""`kept_whole` finds what the reconciliation finds that it stands for, down to the order of topics and partitions."""

from __future__ import annotations

import random

import pytest

from coordinatord.coordination.group.consumer.reconcile import Reconciliation, kept_whole
from coordinatord.coordination.group.consumer.state import ConsumerMember, Epochs, MemberState, Target

EPOCH = 8
CASES = 300


def _cases(seed: int) -> list[tuple[Epochs, Target, frozenset[bytes]]]:
    """What a member owns, its target, and the topics that it subscribes to: mostly alike, sometimes in an order that
    Kafka's tables would not give, sometimes with a partition or a topic more or less.
    """
    chance = random.Random(seed)
    found: list[tuple[Epochs, Target, frozenset[bytes]]] = []
    for _ in range(CASES):
        topics = [chance.randbytes(16) for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 15)))]
        widest = chance.choice((4, 40, 400_000))
        owned = {topic: chance.sample(range(widest), chance.randint(1, min(widest, 20))) for topic in topics}
        if chance.random() < 0.7:
            owned = {topic: sorted(partitions) for topic, partitions in owned.items()}
        target = {topic: frozenset(partitions) for topic, partitions in owned.items()}
        if topics and chance.random() < 0.2:
            target[chance.choice(topics)] ^= {chance.randrange(widest)}
        if topics and chance.random() < 0.1:
            del target[chance.choice(topics)]
        if chance.random() < 0.1:
            target[chance.randbytes(16)] = frozenset((1, 2))
        assigned = {topic: {each: chance.randint(1, 7) for each in partitions} for topic, partitions in owned.items()}
        found.append((assigned, target, frozenset(each for each in topics if chance.random() < 0.95)))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_the_reconciliation_finds(seed: int) -> None:
    answers = {True: 0, False: 0}
    for assigned, target, subscribed in _cases(seed):
        member = ConsumerMember("m", 7, 6, MemberState.STABLE, assigned=assigned)
        found = Reconciliation(
            member, EPOCH, target, None, subscribed.__contains__, lambda _topic, _partition: False
        ).result(subscription_changed=False)
        assert found is not None
        is_kept = (found.state, found.epoch, found.revoking) == (MemberState.STABLE, EPOCH, {}) and (
            found.assigned == assigned
        )
        kept = kept_whole(assigned, target, subscribed.__contains__)
        if kept is not None:
            assert is_kept, (assigned, target)
            assert _in_order(kept) == _in_order(found.assigned), (assigned, target)
        elif target.keys() == assigned.keys():
            assert not is_kept, (assigned, target)
        answers[kept is not None] += 1
    assert min(answers.values()) > CASES // 10, answers


def _in_order(assigned: Epochs) -> list[tuple[bytes, list[tuple[int, int]]]]:
    return [(topic, list(epochs.items())) for topic, epochs in assigned.items()]
