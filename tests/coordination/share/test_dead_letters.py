"""Dead letters (KIP-1191): which records get one, and when a record is archived."""

from __future__ import annotations

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.state import DeadLetters, Status
from coordinatord.coordination.share.persister import StateBatch
from tests.coordination.share.world import ACCEPT, GAP, REJECT, RELEASE, World

ARCHIVING, ARCHIVED = 3, 4


def test_a_rejected_record_is_archived_after_its_dead_letter() -> None:
    world = World(dead_letters=True)
    world.acquire((0, 4))
    result = world.acknowledge((2, 2, REJECT))
    assert result.write is not None
    assert result.write.batches == (StateBatch(2, 2, ARCHIVING, 1),)
    assert world.shown == "0:qqDqq"
    result = world.done(result)
    assert result.letters == [DeadLetters(2, 2, 1, is_rejected=True)]
    assert world.shown == "0:qqdqq"
    assert world.partition.delivery_complete_count == 0
    result = world.letters_done(result)
    assert result.write is not None
    assert result.write.batches == (StateBatch(2, 2, ARCHIVED, 1),)
    assert world.shown == "0:qqxqq"
    assert world.partition.delivery_complete_count == 1


def test_the_start_offset_waits_for_dead_letters() -> None:
    world = World(dead_letters=True)
    world.acquire((0, 1))
    result = world.done(world.acknowledge((0, 1, (REJECT, ACCEPT))))
    assert world.shown == "0:dk"
    result = world.letters_done(result)
    assert world.shown == "0:xk"
    assert world.done(result).wakes
    assert world.shown == "2:"


def test_records_at_their_delivery_limit_get_dead_letters() -> None:
    """One by a release, one by the end of its session, one by the end of its lock."""
    world = World(dead_letters=True, delivery_count_limit=2, record_lock_duration_ms=100)
    for member, offset in (("m", 0), ("n", 1), ("o", 2)):
        world.acquire((offset, offset), member=member)
    world.after(100)
    for member, offset in (("m", 0), ("n", 1), ("o", 2)):
        assert world.acquire((offset, offset), member=member) == [(offset, offset, 2)]
    results = [world.acknowledge((0, 0, RELEASE)), world.tell(events.Release("n")), world.after(100)]
    assert world.shown == "0:DDd"
    letters = [world.done(result).letters for result in results]
    assert letters == [[DeadLetters(offset, offset, 2, is_rejected=False)] for offset in range(3)]


def test_no_dead_letter_for_a_write_that_failed() -> None:
    world = World(dead_letters=True)
    world.acquire((0, 0))
    result = world.done(world.acknowledge((0, 0, REJECT)), committed=False)
    assert result.letters == ()
    assert world.shown == "0:q"


def test_the_end_of_a_lock_gives_a_dead_letter_even_if_it_is_not_persisted() -> None:
    world = World(dead_letters=True, delivery_count_limit=2, record_lock_duration_ms=100)
    world.acquire((0, 0))
    world.after(100)
    world.acquire((0, 0))
    result = world.done(world.after(100), committed=False)
    assert result.letters == [DeadLetters(0, 0, 2, is_rejected=False)]
    world.done(world.letters_done(result), committed=False)
    assert world.shown == "1:"


def test_a_gap_gets_no_dead_letter_nor_does_a_record_below_the_start_offset() -> None:
    world = World(dead_letters=True, delivery_count_limit=2)
    world.acquire((0, 1))
    world.done(world.acknowledge((1, 1, GAP)))
    world.tell(events.MoveLogStart(1))
    world.done(world.tell(events.Release("m")))
    assert world.shown == "2:"


def test_after_a_restart_dead_letters_are_written_again() -> None:
    """What was persisted does not say why; at the limit it is the limit."""
    state = (StateBatch(3, 5, ARCHIVING, 1), StateBatch(6, 6, ARCHIVING, 5), StateBatch(7, 7, 0, 1))
    world = World(start=3)
    result = world.tell(events.Initialize(3, 0, state))
    assert result.letters == [DeadLetters(3, 5, 1, is_rejected=True), DeadLetters(6, 6, 5, is_rejected=False)]
    result = world.letters_done(result)
    assert result.write is not None
    assert result.write.batches == (StateBatch(3, 5, ARCHIVED, 1), StateBatch(6, 6, ARCHIVED, 5))
    world.done(result)
    assert world.shown == "7:."


def test_dead_letters_end_once() -> None:
    world = World(dead_letters=True)
    world.acquire((0, 1))
    result = world.done(world.acknowledge((0, 0, REJECT)))
    world.letters_done(result)
    assert world.letters_done(result).write is None
    assert world.partition.delivery_complete_count == 1


def test_dead_letters_of_a_share_partition_that_was_removed() -> None:
    """Its member has gone, and with it the group: the dead letters are still written, as in Kafka."""
    world = World(dead_letters=True)
    world.acquire((0, 0))
    result = world.acknowledge((0, 0, REJECT))
    world.tell(events.Fence())
    result = world.letters_done(world.done(result))
    assert result.write is not None
    assert result.write.batches == (StateBatch(0, 0, ARCHIVED, 1),)
    assert world.partition.status is Status.FENCED
