"""(api key, version) -> codec, and the versions that exist.

`codec(api_key, api_version)` is what a connection asks for with the first four bytes of a frame. Codecs are compiled
when first asked for: a client uses some fifteen of the two hundred pairs, and a start should not pay for the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka_wire import errors
from kafka_wire.api_key import ApiKey
from kafka_wire.compiler import decoder, encoder
from kafka_wire.headers import response_header_is_flexible
from kafka_wire.schema import Versions, schema_of

API_NAMES: dict[int, str] = {key: key.title for key in ApiKey}
"""Every API that is declared, under Kafka's name. What a server offers is its own choice of these."""

LARGEST = 0x7FFF


@dataclass(frozen=True, slots=True)
class Codec:
    """One API in one version. `flexible` tells both headers' versions; see `headers`. `decode_request` leaves unread
    what is behind a request's end (see `compiler`), `decode_response` refuses it.
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
        """The client's half."""
        return encoder(self.request, self.api_version)

    @property
    def decode_response(self) -> Callable[[bytes, int, int], Any]:
        """The client's half."""
        return decoder(self.response, self.api_version)


def _module_name(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def messages(api_key: int) -> tuple[type[Any], type[Any]]:
    """Request and response class of an API; KeyError when it is not declared."""
    name = API_NAMES[api_key]
    module = importlib.import_module(f"kafka_wire.api.{_module_name(name)}")
    return getattr(module, name + "Request"), getattr(module, name + "Response")


def versions_of(api_key: int) -> Versions:
    """The versions in which an API is declared; KeyError when it is not."""
    return schema_of(messages(api_key)[0]).versions


class _Codecs(dict[int, Codec]):
    """Codecs by `api_key << 16 | api_version`, made when first missed."""

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
            decode_request=decoder(request, api_version, exact=False),
            encode_response=encoder(response, api_version),
        )
        return made


CODECS = _Codecs()
"""For the hot path: index it with a frame's first four bytes as an unsigned int; raises `UnknownApiError`."""


def codec(api_key: int, api_version: int) -> Codec:
    """The codec of an API in a version; `UnknownApiError` when there is none."""
    return CODECS[(api_key & 0xFFFF) << 16 | (api_version & 0xFFFF)]
