"""Player of a story: sends its requests to any broker, and records the responses.

Time is the event loop's: the real one's for Kafka, a virtual one's for our daemon in memory. A response that took a
second or more is recorded with its time in whole seconds, so a story must not wait for half seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from coordinatord.testing.conform import values
from coordinatord.testing.conform.normalized import Names, put_in_order, rendered
from coordinatord.testing.conform.raw_client import BadAnswer, RawClient
from coordinatord.testing.conform.story import Step, Story, StoryError
from coordinatord.testing.conform.wait_until_settled import Connect, wait_until_settled
from kafka_wire.registry import API_NAMES, Codec, messages

API_KEYS = {name: key for key, name in API_NAMES.items()}
ANSWER_TIMEOUT_S = 40
UNTIMED = frozenset(
    {"CreateTopics", "CreatePartitions", "DeleteTopics", "InitProducerId", "IncrementalAlterConfigs"}
    | {"DescribeShareGroupOffsets"}
)
"""APIs that involve Kafka's controller, or a connection of Kafka's broker to itself: their response times depend on the
machine alone, and are not recorded.
"""
LOOK_S = 0.3
"""Time in seconds that `A?` waits for a response that should not arrive."""
GRACE_S = 0.1
"""Time in seconds that the player waits after a request with a later response: the broker must receive it before the
next one.
"""

_UNPLAYABLE = (ValueError, AssertionError, TypeError, SyntaxError, KeyError, OSError)
"""Exceptions of a step whose response is invalid, or lacks the ids that the next request needs."""


class PlayError(StoryError):
    """A story that could not be played to its end; `why` is the reason alone."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was sent or received while a step was played. `data` does not include the size."""

    step: Step
    connection: str
    is_request: bool
    data: bytes
    codec: Codec


class Player:
    """One play of one story. Its groups, topics and transactional ids are called `<prefix>.<name in the story>`."""

    def __init__(
        self,
        story: Story,
        connect: Connect,
        host: str,
        port: int,
        prefix: str = "",
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self.story = story
        self.timeout_s = timeout_s
        self.connect = connect
        self.names = Names(story.name, host, port, prefix)
        self.clients: dict[str, RawClient] = {}
        #: the results so far, one for each step that has one; if `play` fails, those before the failure
        self.results: list[list[str]] = []
        self.frames: list[Frame] = []
        self._step = story.steps[0]

    async def play(self) -> list[list[str]]:
        """Return the result of each step that has one, in order. Raises PlayError if a step cannot be played, and
        ConnectionRefusedError if the broker does not listen any more.
        """
        try:
            for step in self.story.steps:
                self._step = step
                try:
                    result = await self._play(step)
                except ConnectionRefusedError:
                    raise
                except _UNPLAYABLE as error:
                    so_far = "\n".join(line for result in self.results for line in result)
                    raise PlayError(
                        _error_text(error), f"{self.story.path.name}:{step.line}: {error!r}, after\n{so_far}"
                    ) from error
                if step.is_answered:
                    self.results.append(result)
        finally:
            for client in self.clients.values():
                client.close()
        return self.results

    async def _play(self, step: Step) -> list[str]:
        if step.kind == "wait":
            await asyncio.sleep(step.seconds)
            return []
        if step.kind == "open":
            client_id = values.fields(step.text, self.names.lookup, self.names.remember)["client_id"]
            await self._connect(step.connection, client_id)
            return []
        if step.kind == "close":
            self.clients.pop(step.connection).close()
            await asyncio.sleep(GRACE_S)
            return []
        client = await self._client(step.connection)
        began_s = asyncio.get_running_loop().time()
        if step.kind in (":", ">"):
            client.send(self._request(step), step.version)
            if step.kind == ">":
                await asyncio.sleep(GRACE_S)
                return []
        elif step.kind in ("frame", "bytes"):
            data = values.expression(step.text, self.names.lookup)
            client.link.write(len(data).to_bytes(4, "big") + data if step.kind == "frame" else data)
            return await self._raw_answer(client)
        return await self._answer(client, began_s, LOOK_S if step.kind == "?" else self.timeout_s)

    async def _client(self, connection: str) -> RawClient:
        if connection not in self.clients:
            await self._connect(connection, connection)
        return self.clients[connection]

    async def _connect(self, connection: str, client_id: str) -> None:
        client = await self.connect(client_id)
        client.on_frame = lambda is_request, data, codec: self.frames.append(
            Frame(self._step, connection, is_request, data, codec)
        )
        self.clients[connection] = client

    def _request(self, step: Step) -> Any:
        request_class, _ = messages(API_KEYS[step.api])
        given: dict[str, Any] = {}
        for text in (self.story.defaults.get(step.api, ""), step.text):
            given |= values.fields(text, self.names.lookup, self.names.remember)
        return values.message(request_class, given)

    async def _answer(self, client: RawClient, began_s: float, timeout_s: float) -> list[str]:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await client.receive()
        except TimeoutError:
            if timeout_s == LOOK_S:
                return ["nothing"]
            raise BadAnswer(f"nothing in {timeout_s:g} s") from None
        seconds = round(asyncio.get_running_loop().time() - began_s)
        lines = ["closed"]
        if answer is not None:
            if not client.unanswered:
                await wait_until_settled(self.connect, answer)
            put_in_order(answer.request, answer.message)
            lines = rendered(self.names, answer.message, answer.codec.api_version)
        if seconds and not (answer and answer.codec.name in UNTIMED):
            lines[0] = f"after {seconds} s: {lines[0]}"
        return lines

    async def _raw_answer(self, client: RawClient) -> list[str]:
        """Return the bytes that follow a frame which need not be a request, undecoded: the request that they respond to
        is unknown.
        """
        try:
            async with asyncio.timeout(2 * LOOK_S):
                frame = await client.link.read_frame()
        except TimeoutError:
            return ["nothing"]
        return ["closed"] if frame is None else [f"frame {frame.hex()}" if len(frame) <= 64 else "a long frame"]


def _error_text(error: Exception) -> str:
    if isinstance(error, KeyError):
        return "an earlier answer has not what this request needs"
    return str(error) or type(error).__name__
