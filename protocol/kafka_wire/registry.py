"""(api key, version) -> codec, and the declared versions.

A connection looks up `codec(api_key, api_version)` with the first four bytes of a frame. Codecs are imported at first
use: a client uses about fifteen of the two hundred pairs, and importing the rest would slow down the start.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka_wire import errors
from kafka_wire.api_key import ApiKey
from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import ErrorCode
from kafka_wire.headers import response_header_is_flexible
from kafka_wire.schema import Versions, schema_of

API_NAMES: dict[int, str] = {key: key.title for key in ApiKey}
"""Every declared API, under Kafka's name. A server advertises a subset of these."""

LARGEST = 0x7FFF


@dataclass(frozen=True, slots=True)
class Codec:
    """One API in one version. `flexible` determines the versions of both headers; see `headers`. `decode_request`
    ignores surplus bytes after the request (see `codecs`), `decode_response` rejects them.
    """

    api_key: int
    api_version: int
    name: str
    flexible: bool
    response_header_flexible: bool
    request: type[Any]
    response: type[Any]
    decode_request: Callable[[bytes, int, int], Any]
    encode_response: Callable[[Any, bytearray], None]

    @property
    def encode_request(self) -> Callable[[Any, bytearray], None]:
        """The encoder that clients use."""
        return encoder(self.request, self.api_version)

    @property
    def decode_response(self) -> Callable[[bytes, int, int], Any]:
        """The decoder that clients use."""
        return decoder(self.response, self.api_version)


def _module_name(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def messages(api_key: int) -> tuple[type[Any], type[Any]]:
    """Return the request and response classes of an API. Raises KeyError for an undeclared API."""
    name = API_NAMES[api_key]
    module = importlib.import_module(f"kafka_wire.api.{_module_name(name)}")
    return getattr(module, name + "Request"), getattr(module, name + "Response")


def versions_of(api_key: int) -> Versions:
    """Return the declared versions of an API. Raises KeyError for an undeclared API. Imports no declaration."""
    from kafka_wire.generated.versions import VERSIONS

    return Versions(*VERSIONS[api_key])


def error_response(request: Any, version: int, code: ErrorCode) -> Any:
    """Return the response to `request` in `version` with the error `code`, in each place where the API has its errors.

    That is what the function of this name beside the request's declaration returns; without one, the API has only a
    top-level error code. Kafka's counterpart is `AbstractRequest.getErrorResponse`.
    """
    module = sys.modules[type(request).__module__]
    own = getattr(module, "error_response", None)
    if own is not None:
        return own(request, version, code)
    return getattr(module, type(request).__name__.removesuffix("Request") + "Response")(error_code=code)


class _Codecs(dict[int, Codec]):
    """Codecs by `api_key << 16 | api_version`, created at first use."""

    def __missing__(self, key: int) -> Codec:
        api_key, api_version = key >> 16, key & 0xFFFF
        if api_key not in API_NAMES or api_version > LARGEST or api_version not in versions_of(api_key):
            raise errors.UnknownApiError(f"api key {api_key} version {api_version}")
        request, response = messages(api_key)
        flexible = api_version in schema_of(request).flexible
        made = self[key] = Codec(
            api_key=api_key,
            api_version=api_version,
            name=API_NAMES[api_key],
            flexible=flexible,
            response_header_flexible=response_header_is_flexible(api_key, flexible),
            request=request,
            response=response,
            decode_request=decoder(request, api_version),
            encode_response=encoder(response, api_version),
        )
        return made


CODECS = _Codecs()
"""Codecs for the hot path: indexed with a frame's first four bytes as an unsigned int; raises `UnknownApiError`."""


def codec(api_key: int, api_version: int) -> Codec:
    """Return the codec of an API in a version. Raises `UnknownApiError` if it is not declared."""
    return CODECS[(api_key & 0xFFFF) << 16 | (api_version & 0xFFFF)]
