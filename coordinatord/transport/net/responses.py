"""A response as a frame: size, header, body."""

from __future__ import annotations

import struct
from typing import Any, Final

from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.limits import MAX_ANSWER_BYTES
from coordinatord.transport.net.received import Received
from kafka_wire.message_parts import Parts
from kafka_wire.registry import Codec


class AnswerTooLarge(Exception):
    """Raised if a response is too large to be sent; the text names the limit that the response exceeds."""


MAX_TEXT_BYTES: Final = 0x7FFF
CUT_CHARACTERS: Final = 1_000
"""Maximum bytes of a string whose length is an int16, and the characters that are left of an error message with more
bytes.
"""

_frame_head = struct.Struct(">ii").pack
"""A response frame's first eight bytes: the size of what follows, and the correlation id."""
_pack_size = struct.Struct(">i").pack_into


def encode_response(to: Received, response: Any, out: bytearray, metrics: Metrics) -> None:
    """Append a whole response frame. A `response` of type bytes, from the fast path, is the body of a response
    without an error. Raises AnswerTooLarge after removing what was appended.
    """
    codec = to.codec
    if to.admitted is not None:
        response = to.amended(response)
    if type(response) is bytes:
        if codec.response_header_flexible:
            out += _frame_head(5 + len(response), to.correlation_id) + b"\0" + response
        else:
            out += _frame_head(4 + len(response), to.correlation_id) + response
        return
    start = len(out)
    error_code = getattr(response, "error_code", 0)
    if error_code:
        metrics.error(codec.api_key, error_code)
    out += _frame_head(0, to.correlation_id)
    if codec.response_header_flexible:
        out.append(0)
    try:
        encode_body(codec, response, out)
    except Exception:
        del out[start:]  # the frames before it are complete and are sent
        raise
    _pack_size(out, start, len(out) - start - 4)


def encode_body(codec: Codec, response: Any, out: bytearray) -> None:
    """Append a response's body. An error message that quotes input of the peer may have more bytes than a plain string
    can have: such a message is cut. Kafka responds with UNKNOWN_SERVER_ERROR in that case, since addSize of the
    response throws. Raises AnswerTooLarge; records that are not copied into `out` do not count.
    """
    start = len(out)
    try:
        codec.encode_response(response, out)
    except struct.error:
        del out[start:]
        if not _cut_messages(response):
            raise
        codec.encode_response(response, out)
    if len(out) - start > MAX_ANSWER_BYTES:
        raise AnswerTooLarge(f"the response would have more than {MAX_ANSWER_BYTES} bytes")


def _cut_messages(message: Any) -> bool:
    """Cut the error messages that cannot be encoded; returns whether there was one."""
    found = False
    for name in type(message).__slots__:
        value = getattr(message, name)
        if type(value) is list:
            for each in value:
                if hasattr(each, "__slots__"):
                    found = _cut_messages(each) or found
        elif name == "error_message" and value is not None and len(value.encode()) > MAX_TEXT_BYTES:
            setattr(message, name, value[:CUT_CHARACTERS] + "…")
            found = True
    return found


def encode_head(to: Received, size: int, out: bytearray) -> None:
    """Append the size, the header and all else that precedes a body of `size` bytes."""
    if to.codec.response_header_flexible:
        out += _frame_head(5 + size, to.correlation_id) + b"\0"
    else:
        out += _frame_head(4 + size, to.correlation_id)


def encode_in_parts(to: Received, response: Any, metrics: Metrics) -> Parts:
    """Return the response's frame in parts: the records stay in their own buffer."""
    out = Parts()
    encode_response(to, response, out, metrics)
    _pack_size(out, 0, out.size - 4)
    return out
