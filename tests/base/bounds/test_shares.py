"""Of all who have bytes under way, those with most give up when there are too many."""

from __future__ import annotations

from coordinatord.base.bounds.fair_shares import Shares


class Holding:
    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        self.has_given_up = False

    def give_up(self) -> None:
        self.has_given_up = True
        self.shares.hold(self, 0)  # as a connection that is closed at once


def test_the_largest_gives_up() -> None:
    shares = Shares(100)
    small, large, middle = (Holding(shares) for _ in range(3))
    shares.hold(small, 10)
    shares.hold(large, 60)
    assert shares.room == 30
    shares.hold(middle, 40)
    assert [each.has_given_up for each in (small, large, middle)] == [False, True, False]
    assert (shares.bytes, shares.room, len(shares)) == (50, 50, 2)


def test_who_takes_too_much_gives_up_itself() -> None:
    shares = Shares(100)
    one, other = Holding(shares), Holding(shares)
    shares.hold(one, 40)
    shares.hold(other, 30)
    shares.hold(other, 90)
    assert (one.has_given_up, other.has_given_up, shares.bytes) == (False, True, 40)


def test_as_many_as_necessary_give_up() -> None:
    shares = Shares(100)
    holding = [Holding(shares) for _ in range(10)]
    for each in holding:
        shares.hold(each, 10)
    last = Holding(shares)
    shares.hold(last, 9)
    assert sum(each.has_given_up for each in holding) == 1
    shares.hold(last, 9)
    assert not last.has_given_up
    assert shares.bytes == 99


def test_one_that_is_alone_may_have_more() -> None:
    shares = Shares(100)
    one, other = Holding(shares), Holding(shares)
    shares.hold(one, 500)
    assert not one.has_given_up
    assert shares.room == 0
    shares.hold(other, 1)
    assert (one.has_given_up, other.has_given_up, shares.bytes) == (True, False, 1)


def test_nothing_is_counted_of_who_has_ended() -> None:
    shares = Shares(100)
    one = Holding(shares)
    shares.hold(one, 0)
    shares.hold(one, 70)
    shares.hold(one, 0)
    shares.hold(one, 0)
    assert (shares.bytes, len(shares)) == (0, 0)
