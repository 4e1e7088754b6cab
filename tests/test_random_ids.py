"""Ids of members."""

from __future__ import annotations

import uuid

from coordinatord.coordination.service.random_ids import IDS_AT_A_TIME, RandomIds


def test_ids_are_random_uuids_and_never_the_same() -> None:
    """Also when the digits that were fetched together are used up."""
    new_id = RandomIds()
    made = [new_id() for _ in range(IDS_AT_A_TIME * 16)]
    assert len(set(made)) == len(made)
    for text in made:
        parsed = uuid.UUID(text)
        assert str(parsed) == text, "in the form that Java prints"
        assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)
    for at in (0, 15, 20, 35):  # neither version nor variant: all digits come up
        assert {text[at] for text in made} == set("0123456789abcdef")
