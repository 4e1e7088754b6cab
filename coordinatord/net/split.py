"""Requests of many elements, each of which is answered independently: they are answered some elements at a time.

For the handler each part is a request of its own, and each part's answer is encoded at once. So no request of this kind
holds the event loop for long, whatever it asks for, and what it holds is its answer's bytes, of which there are at most
`MAX_ANSWER_BYTES`: beyond that the connection is closed. The client gets what one call of the handler would have given.

Requests of more than `LARGE_BYTES` are decoded on another thread, of every API. Those of more than `MAX_LIST_BYTES` are
refused, unless most of their bytes are a client's own data (`CARRIERS`); and those of more than `MAX_ELEMENTS`, unless
they are made in slices. Refusing closes the connection, with a line in the log. The figures are in limits.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, NamedTuple

from coordinatord.net.limits import IN_SLICES, MAX_ANSWER_BYTES, MAX_ELEMENTS
from coordinatord.net.received import NO_BODY
from coordinatord.net.request import RequestContext
from coordinatord.net.responses import encode_body
from coordinatord.net.slices import Slices, Steps, Wait, let_go
from kafka_wire.api_key import ApiKey
from kafka_wire.lengths import read_uvarint, write_uvarint
from kafka_wire.registry import Codec
from kafka_wire.schema import schema_of

FEW: Final = 16
"""With so many elements a request is not split."""

MANY: Final = 1_000
"""So many names are looked at between two pauses."""

PART_S: Final = 0.001
"""How long a part should take: the number of its elements follows from the time of the one before."""


class Split(NamedTuple):
    """The elements of a request, and those of its response; both in all versions from `first_version` on.
    `once`: an element that is repeated is answered once.
    """

    asked: str
    answered: str
    first_version: int = 0
    once: bool = False


SPLITS: Final[dict[int, Split]] = {
    ApiKey.OFFSET_FETCH: Split("groups", "groups", 8),
    ApiKey.FIND_COORDINATOR: Split("coordinator_keys", "coordinators", 4),
    ApiKey.DESCRIBE_GROUPS: Split("groups", "groups"),
    ApiKey.DELETE_GROUPS: Split("groups_names", "results", once=True),
    ApiKey.DELETE_RECORDS: Split("topics", "topics"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split("topics", "topics"),
    ApiKey.DESCRIBE_CONFIGS: Split("resources", "results"),
    ApiKey.DESCRIBE_PRODUCERS: Split("topics", "topics"),
    ApiKey.DESCRIBE_TRANSACTIONS: Split("transactional_ids", "transaction_states"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split("group_ids", "groups"),
}


class TooLarge(Exception):
    """A request is refused because it, or its response, has more than the limits of this module."""


class Encoded(NamedTuple):
    """The body of a response, encoded: to be sent in one go, and not copied together."""

    pieces: list[bytes]
    size: int


class PartContext(RequestContext):
    """The context of a part: remembers what its answer waits for."""

    __slots__ = ("epoch", "failure", "response")

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context.connection, context.codec, context.correlation_id, NO_BODY)
        self.epoch = 0
        self.response: Any = None
        self.failure: Callable[[], Any] | None = None

    def answer_at(self, epoch: int, response: Any, failure: Callable[[], Any]) -> None:
        self.epoch, self.response, self.failure = epoch, response, failure


def split_of(codec: Codec, request: Any) -> Split | None:
    """How this request is split; None if it is not."""
    split = SPLITS.get(codec.api_key)
    if split is None or codec.api_version < split.first_version:
        return None
    asked = getattr(request, split.asked)
    if asked is None or len(asked) <= FEW:
        return None
    return split


def decoded_aside(context: RequestContext, handler: Callable[[Any, Any], Any]) -> Slices:
    """The response to a large request, which is still to be decoded."""
    return Slices(_decoded(context, handler), is_change=True)


def _decoded(context: RequestContext, handler: Callable[[Any, Any], Any]) -> Steps:
    request = yield lambda: _within_limits(context)
    if context.closed:
        return None
    split = split_of(context.codec, request)
    response = handler(context, request) if split is None else in_parts(context, request, split, handler)
    if type(response) is Slices:
        return (yield from response.steps)
    return response


def encoded_aside(context: RequestContext, slices: Slices) -> Slices:
    """The same response, encoded on another thread, if it is one without an error that is still to be encoded."""
    return Slices(_encoding(context, slices.steps), is_change=slices.is_change)


def _encoding(context: RequestContext, steps: Steps) -> Steps:
    response = yield from steps
    if response is None or isinstance(response, (bytes, Encoded)):
        return response
    response, codec = context.amended(response), context.codec
    if getattr(response, "error_code", 0):
        return response
    encoded = yield lambda: _encoded(codec, response)
    for name in type(response).__slots__:
        if type(elements := getattr(response, name)) is list:
            yield from let_go(elements)
    return Encoded([encoded], len(encoded))


def _within_limits(context: RequestContext) -> Any:
    """The decoded request."""
    request, codec = context.request, context.codec
    if split_of(codec, request) is None and codec.api_key not in IN_SLICES:
        count = elements_of(request)
        if count > MAX_ELEMENTS:
            raise TooLarge(f"the request lists {count} elements, more than {MAX_ELEMENTS}")
    return request


def elements_of(message: Any) -> int:
    """How many partitions, names, … a message lists: of lists within lists, the inner elements count."""
    total = 0
    for name in type(message).__slots__:
        value = getattr(message, name)
        if type(value) is list:
            total += sum([max(1, elements_of(each)) if hasattr(each, "__slots__") else 1 for each in value])
    return total


def _encoded(codec: Codec, response: Any) -> bytes:
    out = bytearray()
    encode_body(codec, response, out)
    return bytes(out)


def in_parts(context: RequestContext, request: Any, split: Split, handler: Callable[[Any, Any], Any]) -> Slices:
    """The response of `handler`, called for some elements of the request at a time."""
    return Slices(_parts(context, request, split, handler))


def _parts(context: RequestContext, request: Any, split: Split, handler: Callable[[Any, Any], Any]) -> Steps:
    elements = getattr(request, split.asked)
    if split.once:
        elements = yield from _once(elements)
    frame = _Frame(context.codec, split.answered)
    pieces: list[bytes] = []
    size = count = first = epoch = 0
    failures: list[tuple[int, Callable[[], Any]]] = []
    many = 1
    while first < len(elements):
        part = copy.copy(request)
        setattr(part, split.asked, elements[first : first + many])
        first += many
        began_s = perf_counter()
        heard = PartContext(context)
        response = handler(heard, part)
        if type(response) is Slices:
            response = yield from response.steps
        if response is None:
            assert heard.failure is not None, "a part is answered at once, or waits for the log"
            response = heard.response
            epoch = max(epoch, heard.epoch)
            failures.append((len(pieces), heard.failure))
        number, encoded = frame.elements_of(heard.amended(response))
        pieces.append(encoded)
        count += number
        size += len(encoded)
        if size > MAX_ANSWER_BYTES:
            raise TooLarge(f"the answer would have more than {MAX_ANSWER_BYTES} bytes")
        took_s = perf_counter() - began_s
        many = max(1, min(2 * many, int(many * PART_S / max(took_s, 1e-6))))
        yield None
    if not (yield from is_durable(context, epoch)):
        for index, failure in failures:
            number, pieces[index] = frame.elements_of(failure())
    return frame.around(pieces, count)


def _once(elements: list[Any]) -> Steps:
    """The elements without repetitions."""
    found: dict[Any, None] = {}
    for first in range(0, len(elements), MANY):
        found.update(dict.fromkeys(elements[first : first + MANY]))
        yield None
    return list(found)


def is_durable(context: RequestContext, epoch: int) -> Steps:
    """Wait for the log, if something was appended (`epoch` is not 0); whether it has not failed."""
    if not epoch:
        return True
    outcome: list[bool] = []

    def wait(resume: Callable[[], object]) -> None:
        def told(is_durable: bool) -> None:
            outcome.append(is_durable)
            resume()

        context.connection.door.hold(epoch, lambda: told(True), lambda: told(False))

    yield Wait(wait)
    return outcome[0]


class _Frame:
    """What a response has before and behind its elements, and how it counts them."""

    def __init__(self, codec: Codec, name: str) -> None:
        self._codec = codec
        self._name = name
        self._element: Any = next(
            field.type.element.struct  # type: ignore[union-attr]  # an array of structs
            for field in schema_of(codec.response).fields
            if field.name == name
        )
        self._head = b""
        self._tail = b""

    def elements_of(self, response: Any) -> tuple[int, bytes]:
        """How many elements a response has, and their bytes. `response` is a message, or a body without an error."""
        if isinstance(response, bytes):
            encoded, message = response, self._codec.response()
        else:
            encoded, message = self._encoded(response), response
        head, tail = self._around(message)
        stop = len(encoded) - tail
        self._head, self._tail = encoded[:head], encoded[stop:]
        if self._codec.flexible:
            number, start = _read_count(encoded, head)
        else:
            number, start = int.from_bytes(encoded[head : head + 4], "big"), head + 4
        return number, encoded[start:stop]

    def around(self, pieces: list[bytes], count: int) -> Encoded:
        """The whole response."""
        number = write_uvarint(count + 1) if self._codec.flexible else count.to_bytes(4, "big")
        found = [self._head + number, *pieces, self._tail]
        return Encoded(found, sum(map(len, found)))

    def _around(self, message: Any) -> tuple[int, int]:
        """How many bytes are before the number of elements, and behind the last element: what differs first between no
        element and one is their number.
        """
        empty = copy.copy(message)
        setattr(empty, self._name, [])
        none = self._encoded(empty)
        setattr(empty, self._name, [self._element()])
        one = self._encoded(empty)
        first = next(at for at, byte in enumerate(none) if byte != one[at])
        head, number = (first, 1) if self._codec.flexible else (first - 3, 4)
        return head, len(none) - head - number

    def _encoded(self, message: Any) -> bytes:
        return _encoded(self._codec, message)


def _read_count(encoded: bytes, pos: int) -> tuple[int, int]:
    """The number of elements, which is written plus one as a varint; and where the first of them is."""
    value = encoded[pos]
    pos += 1
    if value > 0x7F:
        value, pos = read_uvarint(encoded, pos, value)
    return value - 1, pos
