"""Which node is asked, row by row: the least loaded, one being connected, one that is free; else the bootstrap."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.nodes import Nodes
from coordinatord.testing.member.state import MemberSettings

BOOTSTRAP = [("a", 1), ("b", 2)]
KNOWN = {7: ("x", 7), 8: ("y", 8), 9: ("z", 9)}


def nodes(random: float = 0.0, **settings: bool | int) -> Nodes:
    """`random` 0.5 would be no jitter; 0.0 begins with the first node and takes a fifth off every back-off."""
    made = Nodes(BOOTSTRAP, lambda: random, **settings)  # type: ignore[arg-type]
    made.replace_nodes(KNOWN)
    return made


def connect(made: Nodes, node_id: int, in_flight: int = 0) -> None:
    made.connecting((node_id, False), 0)
    made.ready((node_id, False))
    for _ in range(in_flight):
        made.count_request((node_id, False))


def test_before_the_first_metadata_it_is_a_bootstrap_server() -> None:
    for random, chosen in ((0.0, -1), (0.5, -2), (0.999, -2)):
        made = Nodes(BOOTSTRAP, lambda random=random: random)  # type: ignore[misc]
        assert made.choose(0) == chosen
        assert made.address(chosen) == BOOTSTRAP[-1 - chosen]


def test_the_one_with_the_fewest_requests_in_flight() -> None:
    made = nodes()
    for node_id, in_flight in ((7, 2), (8, 1), (9, 3)):
        connect(made, node_id, in_flight)
    assert made.choose(0) == 8
    made.count_request((8, False))
    made.count_request((8, False))
    assert made.choose(0) == 7
    made.answered((9, False))
    made.answered((9, False))
    assert made.choose(0) == 9


def test_equal_nodes_are_asked_in_a_random_order() -> None:
    assert {nodes(random).choose(0) for random in (0.0, 0.4, 0.7)} == {7, 8, 9}


def test_a_busy_connection_is_preferred_to_a_new_one_and_one_under_way_to_a_new_one() -> None:
    made = nodes()
    made.connecting((9, False), 0)
    assert made.choose(0) == 9
    connect(made, 8, in_flight=5)
    assert made.choose(0) == 8


def test_the_coordinators_own_connection_counts_for_nothing() -> None:
    made = nodes()
    made.connecting((8, True), 0)
    made.ready((8, True))
    assert made.choose(0) == 7
    connect(made, 9, in_flight=1)
    connect(made, 8)
    for _ in range(3):
        made.count_request((8, True))
    assert made.choose(0) == 8


def test_of_those_without_a_connection_the_one_that_was_tried_the_longest_ago() -> None:
    made = nodes()
    made.lost((7, False), 10)
    made.lost((8, False), 5)
    made.lost((9, False), 20)
    assert made.choose(1_000) == 8
    made.lost((8, False), 1_000)
    assert made.choose(5_000) == 7


def test_a_node_that_failed_is_left_alone_for_a_back_off_that_grows_up_to_its_maximum() -> None:
    made = nodes(0.5)
    waits = []
    for _ in range(6):
        made.connecting((7, False), 0)
        made.lost((7, False), 0)
        waits.append(made.delay_ms((7, False), 0))
    assert waits == [50, 100, 200, 400, 800, 1_000]
    assert made.choose(999) != 7
    assert made.delay_ms((7, False), 999) == 1
    assert made.delay_ms((7, False), 1_000) == 0
    made.ready((7, False))
    made.lost((7, False), 2_000)
    assert made.delay_ms((7, False), 2_000) == 50, "it had been ready"


@pytest.mark.parametrize(("random", "least"), [(0.0, 40), (0.999, 59)])
def test_the_back_off_is_spread_by_a_fifth(random: float, least: int) -> None:
    made = nodes(random)
    made.lost((7, False), 0)
    assert made.delay_ms((7, False), 0) == least


def test_a_connection_that_we_closed_is_no_failure() -> None:
    made = nodes()
    connect(made, 7, in_flight=1)
    made.hung_up((7, False))
    assert made.delay_ms((7, False), 0) == 0


def lose_all(made: Nodes, now_ms: int) -> None:
    for node_id in made.known:
        made.lost((node_id, False), now_ms)


def test_when_nobody_is_left_it_begins_again_with_the_bootstrap_servers() -> None:
    made = nodes()
    lose_all(made, 0)
    assert made.choose(0) == -1
    assert made.known == {-1: BOOTSTRAP[0], -2: BOOTSTRAP[1]}
    made.lost((-1, False), 0)
    assert made.choose(0) == -2
    made.lost((-2, False), 0)
    assert made.choose(0) is None, "all have failed a moment ago"
    assert made.choose(1_000) in (-1, -2)
    made.replace_nodes({5: ("w", 5)})
    assert made.choose(1_000) == 5


def test_as_long_as_one_connection_is_ready_it_does_not() -> None:
    made = nodes()
    connect(made, 8, in_flight=100)
    made.lost((7, False), 0)
    made.lost((9, False), 0)
    assert made.choose(0) == 8


def test_without_that_strategy_it_waits_for_the_nodes_it_knows() -> None:
    made = nodes(rebootstraps=False)
    lose_all(made, 0)
    assert made.choose(0) is None
    assert made.choose(1_000) == 7
    assert made.choose_for_metadata(0) is None
    assert made.choose_for_metadata(10**9) == 7


def test_it_begins_again_when_no_metadata_come_for_too_long() -> None:
    made = nodes(rebootstrap_trigger_ms=10_000)
    connect(made, 8)
    assert made.choose_for_metadata(1_000) == 8
    assert made.choose_for_metadata(11_000) == 8
    assert made.choose_for_metadata(11_001) == -1
    made.replace_nodes(KNOWN)
    assert made.choose_for_metadata(20_000) == 8
    made.replace_nodes(KNOWN)
    assert made.choose_for_metadata(40_000) == 8, "they have come meanwhile"


def test_the_settings_are_kafkas() -> None:
    settings = MemberSettings("g")
    assert (settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms) == (50, 1_000)
    assert settings.metadata_recovery_strategy == "rebootstrap"
    assert settings.metadata_recovery_rebootstrap_trigger_ms == 300_000
    with pytest.raises(ValueError, match=r"metadata.recovery.strategy is 'hope': use rebootstrap or none"):
        MemberSettings("g", metadata_recovery_strategy="hope")
