"""Frames come out whole and in order, however the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.errors import LengthError
from kafka_wire.framing import FrameSplitter


def contents(splitter: FrameSplitter, data: bytes) -> list[bytes]:
    return [buf[start:end] for buf, start, end in splitter.feed(data)]


@given(st.lists(st.binary(max_size=40), max_size=10), st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = FrameSplitter(100)
    out: list[bytes] = []
    for start, end in itertools.pairwise(places):
        out += contents(splitter, stream[start:end])
    assert out == frames
    assert splitter.held_bytes == 0


def test_a_frame_byte_by_byte_is_kept_until_it_is_whole() -> None:
    splitter = FrameSplitter(10)
    data = b"\0\0\0\x03abc"
    for index in range(len(data) - 1):
        assert contents(splitter, data[index : index + 1]) == []
        assert splitter.held_bytes == index + 1
    assert contents(splitter, data[-1:]) == [b"abc"]


@pytest.mark.parametrize("size", [-1, -(2**31), 11, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_before_its_bytes_come(size: int) -> None:
    splitter = FrameSplitter(10)
    with pytest.raises(LengthError, match="limit is 10"):
        splitter.feed(size.to_bytes(4, "big", signed=True))


def test_a_frame_of_the_limit_passes() -> None:
    assert contents(FrameSplitter(3), b"\0\0\0\x03abc\0\0\0\0") == [b"abc", b""]


def test_chunks_are_held_in_one_buffer() -> None:
    """Two bytes at a time would cost an object each; and what is held of a large frame is not copied at its end."""
    content = bytes(range(256)) * 40
    framed = len(content).to_bytes(4, "big") + content
    splitter = FrameSplitter(1 << 20)
    whole = []
    for at in range(0, len(framed), 2):
        whole += splitter.feed(framed[at : at + 2])
        if not whole:
            assert splitter.begun == framed[: min(at + 2, 16)]
    assert [bytes(buf[start:stop]) for buf, start, stop in whole] == [content]
    assert isinstance(whole[0][0], bytes)
