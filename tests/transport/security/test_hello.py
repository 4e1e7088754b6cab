"""How much of a TLS hello is there, in one record or in many."""

from __future__ import annotations

import pytest

from coordinatord.transport.net.hello import Hello

MESSAGE = b"\x01\x00\x00\x64" + bytes(100)


def in_records(size: int, message: bytes = MESSAGE) -> bytes:
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 50, 103, 104])
def test_a_hello_is_whole_when_its_last_record_is(size: int) -> None:
    sent = in_records(size)
    hello, awaited = Hello(), []
    for count in range(1, len(sent) + 1):
        awaited.append(hello.awaited(sent[:count]))
        assert (awaited[-1] <= count) is (count == len(sent)), count
    assert awaited == sorted(awaited), "never fewer than before"
    assert len(set(awaited)) <= 2 * -(-104 // size), "a record's head, then its end"
    assert Hello().awaited(sent) == len(sent)


def test_what_follows_a_hello_is_not_awaited() -> None:
    assert Hello().awaited(in_records(104) + b"\x14\x03\x03") == len(in_records(104))
    assert Hello().awaited(in_records(4096, MESSAGE + bytes(1000))) == len(in_records(4096, MESSAGE + bytes(1000)))


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x00\x00", b"\x15\x03\x01\x00\x02", in_records(50)[:55] + b"\x17\x03\x03\x00\x01"]
)
def test_what_is_no_hello_is_whole(sent: bytes) -> None:
    """OpenSSL says what is wrong with it."""
    assert Hello().awaited(sent) <= len(sent)


def test_a_long_hello_is_known_to_be_long() -> None:
    assert Hello().awaited(b"\x16\x03\x01\xff\xff") == 5 + 0xFFFF
