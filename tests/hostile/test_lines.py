"""Each API, asked for much, executes only so many lines of Python in one callback of the event loop.

The same as test_turns.py without a clock: that one measures the largest requests in CPU time, this one counts lines, so
it fails on every machine or on none. The requests are made from the declarations (largest.py).

A request that is answered in slices is a small fraction of the largest one, on a fast clock: its slices are short. A
loop that goes through all of its elements at once is longer than `SLICE_LINES` if it has some fifteen lines for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config.access import STANDARD_AUTHORIZER
from coordinatord.transport.net import limits
from coordinatord.transport.net.batching import SPLITS
from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from tests.hostile.largest import Known, largest, longest
from tests.hostile.lines import CALLBACK, LINE_S, SLICE, Counted, counted
from tests.hostile.stage import populate
from tests.hostile.test_turns import SERVED, Innocent, acls, all_acls, filters

CALLBACK_LINES = int(0.020 / LINE_S)
"""Lines of 20 ms: the most of a callback."""
SLICE_LINES = 30_000
"""The most of a slice: its 4 ms are 8,333 lines by the clock, and a part may be
costlier than the part before, from which the number of its elements follows."""
SLICED_BYTES = 24 * 1024
LONG_BYTES = 16 * 1024
"""Of a request with one long string."""
ACLS = 1_000
LAST = (ApiKey.DELETE_RECORDS, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS, ApiKey.DELETE_TOPICS)
"""They take away what the requests of others name."""

pytestmark = [pytest.mark.interpreted, pytest.mark.timeout(600)]


def requests(api_key: int, version: int, known: Known) -> Iterator[tuple[str, Any, int]]:
    """(which, request, the most lines of a slice)."""
    split = SPLITS.get(api_key)
    is_sliced = api_key in limits.IN_SLICES or split is not None
    small = limits.LARGE_CARRIER_BYTES if api_key in limits.CARRIERS else limits.LARGE_BYTES
    # These come first: the first request of an API imports what the daemon loads by need, which no later one does.
    for which, request in longest(api_key, version, known, LONG_BYTES):
        yield which, request, CALLBACK_LINES
    for which, request in largest(api_key, version, known, SLICED_BYTES if is_sliced else small):
        # What is within one element of a request that is split is answered in one piece.
        in_slices = is_sliced and (split is None or which.split()[-2] == split.asked)
        yield which, request, SLICE_LINES if in_slices else CALLBACK_LINES


def longest_lines(daemon: Counted, request: Any, version: int) -> tuple[int, int]:
    """The lines of the longest callback beside a request, and those of the longest slice."""
    daemon.longest_lines()
    peer = daemon.peer()
    peer.send(request, version)
    peer.receive()  # nothing if it is refused
    peer.close()
    found = daemon.longest_lines()
    return found[CALLBACK], found[SLICE]


def test_no_callback_is_long(tmp_path: Path) -> None:
    with counted(tmp_path, auto_create_topics_enable=False) as daemon:
        known = populate(daemon)
        innocent = Innocent(daemon.peer())
        assert daemon.daemon is not None
        handlers = daemon.daemon.door.router.routes.handlers
        daemon.begin()
        too_long = []
        for api_key in (*(each for each in SERVED if each in handlers and each not in LAST), *LAST):
            version = registry.versions_of(api_key).last
            for which, request, most in requests(api_key, version, known):
                in_callback, in_slice = longest_lines(daemon, request, version)
                told = f"{which}: {in_callback} lines in a callback, {in_slice} in a slice"
                print(told)
                if in_callback > CALLBACK_LINES or in_slice > most:
                    too_long.append(told)
                assert innocent.is_in(), which
        assert not too_long, "\n".join(too_long)


@pytest.mark.parametrize("api_key", [ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.DESCRIBE_ACLS], ids=str)
def test_no_callback_of_an_authorizer_is_long(api_key: ApiKey, tmp_path: Path) -> None:
    """With one there is more to do for ACLs: they are compared and stored."""
    version = registry.versions_of(api_key).last
    maker = {ApiKey.CREATE_ACLS: acls, ApiKey.DELETE_ACLS: filters}.get(api_key, all_acls)
    with counted(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, super_users=("User:ANONYMOUS",)) as daemon:
        daemon.peer().ask(acls(ACLS), registry.versions_of(ApiKey.CREATE_ACLS).last)
        daemon.begin()
        in_callback, in_slice = longest_lines(daemon, maker(ACLS), version)
        print(f"{api_key.title}: {in_callback} lines in a callback, {in_slice} in a slice")
        assert in_slice <= SLICE_LINES
        assert in_callback <= CALLBACK_LINES


def test_a_long_slice_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What never pauses is longer than a slice may be."""
    version = registry.versions_of(ApiKey.METADATA).last
    known = Known(["none"], [bytes(16)], ["none"])
    request = next(request for which, request, _ in requests(ApiKey.METADATA, version, known) if "unknown" in which)
    with counted(tmp_path, auto_create_topics_enable=False) as daemon:
        daemon.begin()
        assert 0 < longest_lines(daemon, request, version)[1] <= SLICE_LINES
        monkeypatch.setattr("coordinatord.base.budget.SLICE_S", float("inf"))
        assert longest_lines(daemon, request, version)[1] > SLICE_LINES
