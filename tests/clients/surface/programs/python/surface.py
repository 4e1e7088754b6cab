"""What programs in Python share: they call, it tells (../README.md). Runs where nothing of ours is installed."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

ARGUMENTS = dict(argument.split("=", 1) for argument in sys.argv[1:])
BOOTSTRAP, PREFIX = ARGUMENTS["bootstrap"], ARGUMENTS["prefix"]

TIMEOUT_S = 10
SETTLING_S = 0.01
"""How long what a call has set going may take to be sent."""
STARTING_S = 0.3
"""How long what a new client asks by itself may take."""

SPREADING_S = 0.5
"""How long a change may take from Kafka's controller to its brokers, where a client cannot tell whether it is there."""

# How a client is used without calling a method by its name.
SPOKEN = ("__iter__", "__next__", "__aiter__", "__anext__", "__enter__", "__aenter__")

NO_BROKER = "known to the client"


def public_methods(cls: type, own: bool = False) -> list[str]:
    """The methods that a user of the class may call, inherited ones too, or only its own."""
    names = sorted(vars(cls)) if own else dir(cls)
    names = [name for name in names if not name.startswith("_") or name in SPOKEN]
    return [name for name in names if callable(getattr(cls, name)) and not inspect.isclass(getattr(cls, name))]


class Surface:
    """The calls of one class, one after the other. `error_name` tells an exception; its text may change.

    `own`: what the class inherits has been called already.
    """

    def __init__(self, part: str, cls: type, error_name: Callable[[BaseException], str], own: bool = False) -> None:
        self._part, self._error_name = part, error_name
        self._methods = public_methods(cls, own)
        self._left = dict.fromkeys(self._methods)

    def call(self, method: str, call: Callable[[], Any], case: str = "") -> Any:
        """Make a call and tell what it came to; its result, None after an error."""
        self._cover(method)
        began_s, result = time.time(), None
        try:
            result = call()
            outcome, detail = "ok", shape(result)
        except Exception as error:
            outcome, detail = "error", self._error_name(error)
        self._say(method, case, outcome, detail, began_s)
        return result

    async def acall(self, method: str, call: Callable[[], Any], case: str = "") -> Any:
        """`call` of a coroutine function."""
        self._cover(method)
        began_s, result = time.time(), None
        try:
            result = await asyncio.wait_for(call(), TIMEOUT_S)
            outcome, detail = "ok", shape(result)
        except Exception as error:
            outcome, detail = "error", self._error_name(error)
        self._say(method, case, outcome, detail, began_s)
        return result

    def local(self, method: str, call: Callable[[], Any] | None, why: str = NO_BROKER, case: str = "") -> None:
        """A method that reaches no broker. It is called all the same, unless there is a reason not to."""
        self._cover(method)
        if call is None:
            self._say(method, case, "local", why, None)
            return
        time.sleep(SETTLING_S)
        began_s = time.time()
        call()
        time.sleep(SETTLING_S)
        self._say(method, case, "local", why, began_s)

    def finish(self) -> None:
        """Tell what was not called."""
        for method in self._left:
            self._say(method, "", "not covered", None, None)

    def _cover(self, method: str) -> None:
        assert method in self._methods, f"the {self._part} has no {method}"
        self._left.pop(method, None)

    def _say(self, method: str, case: str, outcome: str, detail: Any, began_s: float | None) -> None:
        times = {} if began_s is None else {"began": began_s, "ended": time.time()}
        say(part=self._part, method=method, case=case, outcome=outcome, detail=detail, **times)


def say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said, default=str) + "\n")
    sys.stdout.flush()


def classes(found: Iterable[str], called: Iterable[str], others: Mapping[str, str]) -> None:
    """The package's classes that talk to brokers: those whose surface is called, and the others with the reason."""
    found, called = sorted(found), set(called)
    absent = (called | others.keys()) - set(found)
    assert not absent, f"no such classes: {absent}"
    for name in found:
        if name in others:
            say(part="classes", method=name, outcome="local", detail=others[name])
        elif name not in called:
            say(part="classes", method=name, outcome="not covered")


def until(ask: Callable[[], Any]) -> Any:
    """The first result that is something."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (result := ask()):
        assert time.monotonic() < deadline_s, "nothing came"
        time.sleep(SETTLING_S)
    return result


def shape(value: Any) -> Any:
    """A result as JSON knows it: objects by their public fields, sets in order, keys as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.name if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, BaseException):
        return {"error": type(value).__name__}
    if hasattr(value, "_asdict"):
        return shape(value._asdict())
    if isinstance(value, Mapping):
        return {key_text(key): shape(each) for key, each in sorted(value.items(), key=lambda item: key_text(item[0]))}
    if isinstance(value, (set, frozenset)):
        return sorted((shape(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, (list, tuple)):
        return [shape(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {field.name: shape(getattr(value, field.name)) for field in dataclasses.fields(value)}
    fields = {name: each for name, each in vars(value).items() if not name.startswith("_")} if has_fields(value) else {}
    return {name: shape(each) for name, each in fields.items()} if fields else type(value).__name__


def has_fields(value: Any) -> bool:
    return hasattr(value, "__dict__") and not callable(value)


def key_text(key: Any) -> str:
    """TopicPartition("t", 0) is t-0."""
    if hasattr(key, "topic") and hasattr(key, "partition"):
        return f"{key.topic}-{key.partition}"
    return str(shape(key))


def by_name(values: Iterable[Any], *names: str) -> list[Any]:
    """Shapes in the order of some of their fields."""
    shapes = [shape(each) for each in values]
    return sorted(shapes, key=lambda each: [str(each[name]) for name in names])
