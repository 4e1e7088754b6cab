"""What watches the simulated world, on stories short enough to be told here."""

from __future__ import annotations

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from tests.testing.simulation.agreed import REMEMBERED, Agreed
from tests.testing.simulation.history import NOTHING_COMMITTED, Register
from tests.testing.simulation.sharing import Shares, Sharing

SUBSCRIPTION = ("t",)


def shares(generation_id: int, **numbers: tuple[int, ...]) -> Shares:
    return Shares(generation_id, {name: frozenset(("t", number) for number in its) for name, its in numbers.items()})


def partitions(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(("t", number) for number in numbers)


def test_what_is_kept_back_for_the_sake_of_balance_may_be_given_up() -> None:
    sharing = Sharing(4)
    assert sharing.assigned(shares(1, a=(0, 1), b=())) is None
    assert sharing.revoked("a", 1, partitions(2, 3), SUBSCRIPTION) is None
    assert sharing.assigned(shares(2, a=(0, 1), b=(2, 3))) is None


def test_nobody_gives_up_so_much_that_less_than_a_share_is_left() -> None:
    sharing = Sharing(4)
    sharing.assigned(shares(1, a=(0,), b=()))
    assert "is left with 1, and 2 are everybody's" in str(sharing.revoked("a", 1, partitions(1, 2, 3), SUBSCRIPTION))


def test_what_stays_ones_own_is_not_given_up() -> None:
    sharing = Sharing(2)
    sharing.assigned(shares(1, a=(0, 1)))
    assert sharing.revoked("a", 1, partitions(0), SUBSCRIPTION) == "a gives up t-0, which stays its own"
    assert sharing.revoked("a", 1, partitions(0), ("u",)) is None, "it reads that topic no more"


def test_somebody_elses_partition_is_given_up_whatever_is_left() -> None:
    sharing = Sharing(4)
    sharing.assigned(shares(1, a=(), b=(0, 1)))
    assert sharing.revoked("a", 1, partitions(0), SUBSCRIPTION) is None


def test_what_was_kept_back_for_nobody_was_given_up_in_vain() -> None:
    sharing = Sharing(4)
    sharing.assigned(shares(1, a=(0, 1), b=(3,)))
    assert sharing.revoked("a", 1, partitions(2), SUBSCRIPTION) is None
    assert sharing.assigned(shares(2, a=(0, 1, 2), b=(3,))) == "a has given up t-2 for nobody: it gets it back"


def test_it_may_come_back_where_others_have_come_or_gone_meanwhile() -> None:
    sharing = Sharing(4)
    sharing.assigned(shares(1, a=(0, 1), b=(3,)))
    sharing.revoked("a", 1, partitions(2), SUBSCRIPTION)
    assert sharing.assigned(shares(2, a=(0, 1, 2, 3))) is None


def test_without_an_assignment_nothing_is_given_up() -> None:
    assert Sharing(1).revoked("a", 1, partitions(0), SUBSCRIPTION) == "a gives up t-0 without an assignment"


def test_a_fetch_that_was_under_way_shows_what_was_overwritten_since() -> None:
    register = Register()
    register.acknowledged(register.sent(7, 0), 10)
    register.acknowledged(register.sent(8, 200_000), 200_010)
    register.acknowledged(register.sent(9, 200_020), 200_030)
    assert register.may_be(7, 200_005)
    assert not register.may_be(7, 200_010), "8 was acknowledged before it asked"
    assert register.may_be(8, 200_025)
    assert not register.may_be(8, 200_030)
    assert not register.may_be(NOTHING_COMMITTED, 200_005)


def test_whoever_led_a_generation_leads_it_after_a_crash_if_anybody_had_his_share() -> None:
    agreed = Agreed()
    assert agreed.joined(1, 7, "a") is None
    assert agreed.joined(1, 7, "b") == "generation 7 has two leaders: a, b"
    assert agreed.joined(2, 7, "b") is None, "it was not logged, and comes a second time"
    agreed.assigned(7, {"a": b"A", "b": b"B"})
    assert agreed.told(2, 7, "a", b"A") is None
    assert agreed.joined(3, 7, "b") is None
    assert agreed.joined(4, 7, "a") == "generation 7 has two leaders: b, a"
    assert agreed.joined(1, 7, "a") is None, "that answer was long under way"


def test_shares_are_of_one_assignment_whoever_asks_when() -> None:
    agreed = Agreed()
    assert agreed.told(1, 6, "a", b"?") is None, "nobody has seen who assigned that"
    agreed.assigned(7, {"a": b"A", "b": b"B"})
    agreed.assigned(7, {"a": b"A", "b": b"", "c": b"C"})
    assert agreed.told(1, 7, "a", b"A") is None, "of either of them"
    assert agreed.told(2, 7, "c", b"C") is None, "so it is the second one"
    assert "is not of the assignment others have got" in str(agreed.told(3, 7, "b", b"B"))


def test_old_generations_are_forgotten() -> None:
    agreed = Agreed()
    for generation_id in range(3 * REMEMBERED):
        agreed.joined(1, generation_id, "a")
        agreed.assigned(generation_id, {})
        agreed.told(1, generation_id, "a", b"")
    assert max(map(len, (agreed._leaders, agreed._led, agreed._sent))) <= REMEMBERED + 1
