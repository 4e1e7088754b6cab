"""Explanation of one story, request by request, with the responses of Kafka and of the broker, and the frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinatord.testing.conform.outcome import Answered, Outcome, difference
from coordinatord.testing.conform.player import Frame
from coordinatord.testing.conform.story import Step
from kafka_wire.schema import schema_of

_MAX_HEX = 512
"""Number of bytes of a frame that are shown; the decoded message is shown whole."""


def explain(outcome: Outcome) -> str:
    """Return the explanation as text."""
    answers = {id(answered.step): answered for answered in outcome.answers}
    out = [f"{outcome.story.name}: {outcome.chapter}{f' ({outcome.kip})' if outcome.kip else ''}", ""]
    for part in outcome.story.parts:
        if isinstance(part, str):
            out.append(part)
            continue
        out += part.source.splitlines()
        answered = answers.get(id(part))
        out += [f"    {line}" for line in _lines(part, answered, outcome)]
        out.append("")
    if outcome.why:
        out += [f"It ends here: {outcome.why}."]
    return "\n".join(out).rstrip("\n") + "\n"


def _lines(step: Step, answered: Answered | None, outcome: Outcome) -> Iterator[str]:
    frames = [frame for frame in outcome.frames if frame.step is step]
    for frame in frames:
        yield from _frame(frame)
    if answered is None:
        return
    if answered.answer is None:
        yield "not played"
    elif answered.is_same:
        yield "as Kafka:"
        yield from (f"  {line}" for line in answered.step.recorded)
    else:
        yield "DIFFERS from Kafka (- Kafka, + this broker):"
        yield from difference(answered)
        if answered.is_like_coordinatord:
            yield f"coordinatord gives this answer, too: {step.reason}"


def _frame(frame: Frame) -> Iterator[str]:
    codec = frame.codec
    arrow = "-->" if frame.is_request else "<--"
    what = "request" if frame.is_request else "response"
    yield f"{arrow} {frame.connection} {codec.name} v{codec.api_version} {what}, {len(frame.data)} bytes"
    shown = frame.data[:_MAX_HEX].hex(" ", 2)
    yield f"    {shown}{' …' if len(frame.data) > _MAX_HEX else ''}"
    yield from (f"    {line}" for line in _decoded(frame))


def _decoded(frame: Frame) -> list[str]:
    """Return the message, a line for each field; empty if the frame cannot be decoded."""
    codec = frame.codec
    try:
        if frame.is_request:
            start = _request_start(frame)
            message: Any = codec.decode_request(frame.data, start, len(frame.data))
        else:
            start = 4 + codec.response_header_flexible
            message = codec.decode_response(frame.data, start, len(frame.data))
    except Exception as error:  # a broker's bytes can be anything
        return [f"cannot be decoded: {error}"]
    return list(_fields(message, codec.api_version))


def _request_start(frame: Frame) -> int:
    """Return the size of the header: API key, version, correlation id, client id, and tagged fields in flexible
    versions.
    """
    length = int.from_bytes(frame.data[8:10], "big", signed=True)
    return 10 + max(length, 0) + frame.codec.flexible


def _fields(message: Any, version: int, indent: str = "") -> Iterator[str]:
    for field in schema_of(type(message)).fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        items = value if isinstance(value, list) else [value]
        if not any(hasattr(type(item), "__schema__") for item in items):
            yield f"{indent}{field.name} = {value!r}"
            continue
        for number, item in enumerate(items):
            yield f"{indent}{field.name}{f'[{number}]' if isinstance(value, list) else ''}:"
            yield from _fields(item, version, indent + "  ")
