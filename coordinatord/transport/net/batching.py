"""Batching of requests with many independent elements: the handler is called for some elements at a time.

Each part is a request of its own for the handler, and the response to it is encoded at once. So no request of this kind
occupies the event loop for long, whatever it asks for, and it occupies only the memory of the encoded response, at most
`MAX_ANSWER_BYTES`: a longer response is replaced by an error. The client gets the response that one call of the handler
would have given.

Requests of more than `LARGE_BYTES` are decoded on another thread, for every API. Requests of more than `MAX_LIST_BYTES`
are rejected, unless most of their bytes are a client's own data (`CARRIERS`); and requests of more than `MAX_ELEMENTS`
elements, unless they are served in slices. A rejection closes the connection and writes a line to the log. The figures
are in limits.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, NamedTuple

from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, Wait, let_go
from coordinatord.transport.net.limits import COUNTED_BYTES, IN_SLICES, MAX_ANSWER_BYTES, MAX_ELEMENTS, MAX_UNREAD_BYTES
from coordinatord.transport.net.received import NO_BODY
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.responses import AnswerTooLarge, encode_body
from kafka_wire.api_key import ApiKey
from kafka_wire.lengths import write_uvarint
from kafka_wire.message_parts import Noted
from kafka_wire.registry import Codec

FEW: Final = 1
"""A request of so few elements is not split. Two may be the same large group, with a response sixteen times as
large.
"""

PART_S: Final = 0.001
"""Seconds that a part should take: the number of its elements follows from the time of the previous part."""


class Split(NamedTuple):
    """The elements of a request, in all versions from `first_version` on; those of its response are the array that is
    declared as batched. `once`: a repeated element is handled once. `distinct`: the field of an element by which the
    handler groups elements; if two elements have the same value, the request is not split. `inner_asked`: a list in
    these elements, if the response for one element may be large; its counterpart is the batched array in an element.
    """

    asked: str
    first_version: int = 0
    once: bool = False
    inner_asked: str = ""
    distinct: str = ""


SPLITS: Final[dict[int, Split]] = {
    ApiKey.OFFSET_FETCH: Split("groups", 8),
    ApiKey.FIND_COORDINATOR: Split("coordinator_keys", 4),
    ApiKey.DESCRIBE_GROUPS: Split("groups"),
    ApiKey.DELETE_GROUPS: Split("groups_names", once=True),
    ApiKey.DELETE_RECORDS: Split("topics", distinct="name"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split("topics"),
    ApiKey.DESCRIBE_CONFIGS: Split("resources"),
    ApiKey.DESCRIBE_PRODUCERS: Split("topics", inner_asked="partition_indexes"),
    ApiKey.DESCRIBE_TRANSACTIONS: Split("transactional_ids"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split("group_ids"),
}


class TooLarge(Exception):
    """A request exceeds the limits of this module and is rejected."""


class Encoded(NamedTuple):
    """An encoded body of a response, in pieces that are sent together without being copied into one buffer."""

    pieces: list[bytes]
    size: int


class BatchContext(RequestContext):
    """Context of a part: stores the flush epoch that its response waits for."""

    __slots__ = ("epoch", "failure", "response")

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context.connection, context.codec, context.correlation_id, NO_BODY)
        self.epoch = 0
        self.response: Any = None
        self.failure: Callable[[], Any] | None = None

    def answer_at(self, epoch: int, response: Any, failure: Callable[[], Any], *, is_patient: bool = False) -> None:
        self.epoch, self.response, self.failure = epoch, response, failure


def split_of(codec: Codec, request: Any) -> Split | None:
    """Return the split of a request, or None if the request is not split."""
    split = SPLITS.get(codec.api_key)
    if split is None or codec.api_version < split.first_version:
        return None
    asked = getattr(request, split.asked)
    if asked is None:
        return None
    if split.distinct and len({getattr(each, split.distinct) for each in asked}) < len(asked):
        return None
    return split if len(asked) > FEW or (split.inner_asked and any(_has_many(split, each) for each in asked)) else None


def _has_many(split: Split, element: Any) -> bool:
    return split.inner_asked != "" and len(getattr(element, split.inner_asked)) > FEW


def decoded_aside(context: RequestContext, handler: Callable[[Any, Any], Any]) -> CooperativeTask:
    """Return a task that decodes a large request on another thread and returns the response to it."""
    return CooperativeTask(_decoded(context, handler), is_change=True)


def _decoded(context: RequestContext, handler: Callable[[Any, Any], Any]) -> TaskSteps:
    request = yield lambda: _within_limits(context)
    if context.closed:
        return None
    split = split_of(context.codec, request)
    response = handler(context, request) if split is None else in_batches(context, request, split, handler)
    if type(response) is CooperativeTask:
        return (yield from response.steps)
    return response


def encoded_aside(context: RequestContext, slices: CooperativeTask) -> CooperativeTask:
    """Return a task with the same response, encoded on another thread unless it is an error or encoded already."""
    return CooperativeTask(_encoding(context, slices.steps), is_change=slices.is_change)


def _encoding(context: RequestContext, steps: TaskSteps) -> TaskSteps:
    response = yield from steps
    if response is None or isinstance(response, Encoded):
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
    """Decode the request. Raises TooLarge."""
    request, codec = context.request, context.codec
    if codec.api_key in IN_SLICES:
        return request
    split = split_of(codec, request)
    if split is None:
        count = elements_of(request)
    elif split.inner_asked:
        count = 0  # the elements are handled one by one
    else:
        count = max([elements_of(each) if hasattr(each, "__slots__") else 1 for each in getattr(request, split.asked)])
    if count > MAX_ELEMENTS:
        raise TooLarge(f"the request lists {count} elements, more than {MAX_ELEMENTS}")
    return request


def elements_of(message: Any) -> int:
    """Count the partitions, names, … that a message lists: of nested lists, the inner elements count."""
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


def in_batches(
    context: RequestContext, request: Any, split: Split, handler: Callable[[Any, Any], Any]
) -> CooperativeTask:
    """Return a task that calls `handler` for some elements of the request at a time and joins the responses."""
    return CooperativeTask(_Parts(context, request, split, handler).steps())


class _Parts:
    """A response that is made part by part. Its bytes count among the unread bytes of all connections."""

    def __init__(self, context: RequestContext, request: Any, split: Split, handler: Callable[[Any, Any], Any]) -> None:
        self._context = context
        self._request = request
        self._split = split
        self._handler = handler
        self._frame = _Frame(context.codec)
        self._pieces: list[bytes] = []
        self._size = self._count = self._epoch = 0
        self._failures: list[tuple[int, Callable[[], Any]]] = []
        self._is_given_up = False

    def steps(self) -> TaskSteps:
        """Make the response."""
        unread = self._context.connection.door.unread
        try:
            return (yield from self._steps())
        finally:
            unread.hold(self, 0)

    def give_up(self) -> None:
        """Stop: this is the largest of all unfinished responses (bounds.shares.Holder)."""
        self._is_given_up = True

    def _steps(self) -> TaskSteps:
        split = self._split
        elements = getattr(self._request, split.asked)
        if split.once:
            elements = yield from _once(elements)
        first, many = 0, 1
        while first < len(elements):
            part = elements[first : first + many]
            alone = next((number for number, each in enumerate(part) if _has_many(split, each)), len(part))
            if alone == 0:
                yield from self._inner(part[0])
                first, many = first + 1, 1
                continue
            part = part[:alone]
            first += len(part)
            number, many = yield from self._piece(self._frame, part, many)
            self._count += number
        if not (yield from is_durable(self._context, self._epoch)):
            for index, failure in self._failures:
                _, self._pieces[index] = self._frame.elements_of(failure())
        return self._frame.around(self._pieces, self._count)

    def _inner(self, element: Any) -> TaskSteps:
        """Handle one element, some elements of its inner list at a time."""
        split, asked = self._split, getattr(element, self._split.inner_asked)
        frame = _Frame(self._context.codec, self._frame)
        kept, self._pieces = self._pieces, []
        first, many, count = 0, 1, 0
        while first < len(asked):
            part = copy.copy(element)
            setattr(part, split.inner_asked, asked[first : first + many])
            first += many
            number, many = yield from self._piece(frame, [part], many)
            count += number
        self._count += 1
        self._pieces = [*kept, *frame.around(self._pieces, count).pieces]

    def _piece(self, frame: _Frame, elements: list[Any], many: int) -> TaskSteps:
        """Add the bytes of the response for some elements. Returns the number of its elements, and the number of
        elements to ask for next. The response for a single element may be large: it is encoded on another thread.
        """
        began_s = perf_counter()
        response = yield from self._answer(elements)
        took_s = perf_counter() - began_s

        def encode() -> tuple[int, bytes, float]:
            began_s = perf_counter()
            number, encoded = frame.elements_of(response)
            return number, encoded, perf_counter() - began_s

        number, encoded, more_s = encode() if many > 1 else (yield encode)
        self._pieces.append(encoded)
        self._size += len(encoded)
        if self._is_given_up:
            raise AnswerTooLarge(f"responses of all clients have more than {MAX_UNREAD_BYTES} bytes, and this one most")
        if self._size > MAX_ANSWER_BYTES:
            raise AnswerTooLarge(f"the response would have more than {MAX_ANSWER_BYTES} bytes")
        if self._size > COUNTED_BYTES:
            self._context.connection.door.unread.hold(self, self._size)
        yield None
        return number, max(1, min(2 * many, int(many * PART_S / max(took_s + more_s, 1e-6))))

    def _answer(self, elements: list[Any]) -> TaskSteps:
        """Return the handler's response to a request that has only these elements, ready to be encoded."""
        part = copy.copy(self._request)
        setattr(part, self._split.asked, elements)
        heard = BatchContext(self._context)
        response = self._handler(heard, part)
        if type(response) is CooperativeTask:
            response = yield from response.steps
        if response is None:
            assert heard.failure is not None, "a part is answered at once, or waits for the log"
            response = heard.response
            self._epoch = max(self._epoch, heard.epoch)
            self._failures.append((len(self._pieces), heard.failure))
        return heard.amended(response)


def _once(elements: list[Any]) -> TaskSteps:
    """Return the elements without repetitions."""
    found: dict[Any, None] = {}
    for first in range(0, len(elements), SLICE_ITEMS):
        found.update(dict.fromkeys(elements[first : first + SLICE_ITEMS]))
        yield None
    return list(found)


def is_durable(context: RequestContext, epoch: int) -> TaskSteps:
    """Wait for the log if records were appended (`epoch` is not 0). Returns whether the log has not failed."""
    if not epoch:
        return True
    outcome: list[bool] = []

    def wait(resume: Callable[[], object]) -> None:
        def ended(is_durable: bool) -> None:
            outcome.append(is_durable)
            resume()

        context.connection.door.hold(epoch, lambda: ended(True), lambda: ended(False), False)

    yield Wait(wait)
    return outcome[0]


class _Frame:
    """The bytes of a response before and behind its elements, from the response that was encoded last, and the encoding
    of their number. With `outer`, the elements are those of the only element of the outer frame, whose bytes these are.
    """

    def __init__(self, codec: Codec, outer: _Frame | None = None) -> None:
        self._codec = codec
        self._outer = outer
        self._head = self._tail = b""

    def elements_of(self, response: Any) -> tuple[int, bytes]:
        """Return the number of elements of a response, and their bytes."""
        out = Noted()
        encode_body(self._codec, response, out)
        if self._outer is None:
            return self._take(out, out.arrays[-1], 0, len(out))
        _, _, begin, end = whole = out.arrays[-1]
        self._outer._take(out, whole, 0, len(out))
        return self._take(out, out.arrays[-2], begin, end)

    def _take(self, out: Noted, array: tuple[int, int, int, int], start: int, stop: int) -> tuple[int, bytes]:
        number, count_at, begin, end = array
        self._head, self._tail = bytes(out[start:count_at]), bytes(out[end:stop])
        return number, bytes(out[begin:end])

    def around(self, pieces: list[bytes], count: int) -> Encoded:
        """Return the whole response, or with `outer` the bytes of its only element."""
        number = write_uvarint(count + 1) if self._codec.flexible else count.to_bytes(4, "big")
        found = [self._head + number, *pieces, self._tail]
        return Encoded(found, sum(map(len, found)))
