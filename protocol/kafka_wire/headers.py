"""Request and response headers.

Request header v1 is [api_key int16, api_version int16, correlation_id int32, client_id nullable string], v2 adds a tag
buffer; client_id keeps its int16 length in v2. A request with a flexible body has header v2.
Response header v0 is [correlation_id int32], v1 adds a tag buffer. ApiVersions responses always have header v0
(KIP-511), since a client reads that response before it knows which versions the broker supports.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafka_wire import errors
from kafka_wire.api_key import ApiKey
from kafka_wire.lengths import read_tags

_FIXED = struct.Struct(">hhih")


@dataclass(slots=True)
class RequestHeader:
    """The header of every request. `client_id` is None if the client sent null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buf: bytes, pos: int, end: int, flexible: bool) -> tuple[RequestHeader, int]:
    """Decode a header at `pos`; return it and the position of the body. Raises `DecodeError`."""
    if end - pos < _FIXED.size:
        raise errors.TruncatedError(f"a request header of {end - pos} bytes")
    api_key, api_version, correlation_id, size = _FIXED.unpack_from(buf, pos)
    pos += _FIXED.size
    client_id = None
    if size >= 0:
        if size > end - pos:
            raise errors.TruncatedError(f"client_id of {size} bytes, {end - pos} are left")
        try:
            client_id = buf[pos : pos + size].decode()
        except UnicodeDecodeError as error:
            raise errors.TextError(f"client_id: {error}") from error
        pos += size
    elif size != -1:
        raise errors.LengthError(f"length {size} of client_id")
    if flexible:
        if pos >= end:
            raise errors.TruncatedError("no tag buffer after the header")
        try:
            _, pos = read_tags(buf, pos, end)
        except IndexError as error:
            raise errors.TruncatedError("tag buffer of the header") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos


def write_request_header(header: RequestHeader, flexible: bool, out: bytearray) -> None:
    """Append a request header: v2 when `flexible`, else v1."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    size = -1 if header.client_id is None else len(client_id)
    out += _FIXED.pack(header.api_key, header.api_version, header.correlation_id, size)
    out += client_id
    if flexible:
        out.append(0)


def response_header_is_flexible(api_key: int, flexible: bool) -> bool:
    """Return whether a response has header v1: it does if its body is flexible, except for ApiVersions."""
    return flexible and api_key != ApiKey.API_VERSIONS
