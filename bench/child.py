"""Clients in a process of their own: it starts with its order, and says a line of JSON for each line that it gets."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench.generator import STALLED_S, WrongAnswer
from bench.servers import cpu_s
from tests.daemon import REPOSITORY

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SILENCE_S = 2 * STALLED_S
"""How long a generator may say nothing, beyond its round. It gives up by itself before, and says why."""
REST_S, REST_TRIES = 0.002, 10

Json = dict[str, Any]


class Generator:
    """A process that drives one server process: a `module` of the bench, with its order."""

    def __init__(self, name: str, module: str, order: DataclassInstance) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(asdict(order))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
        )

    def tell(self, word: Json) -> None:
        """One that has ended does not hear it; `hear` finds out why."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(word).encode() + b"\n")
            self.process.stdin.flush()

    def take(self) -> Json:
        """What it has said. WrongAnswer when that is that it has failed, or nothing any more."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        word: Json = json.loads(line) if line else {"failed": f"ended with exit status {self.process.wait()}"}
        if "failed" in word:
            raise WrongAnswer(f"{self.name}: {word['failed']}")
        return word

    def end(self) -> None:
        """At once, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def hear(generators: Sequence[Generator], seconds: float = 0.0) -> list[Json]:
    """The next word of each. WrongAnswer as soon as one has failed: nobody waits for the others."""
    until_s = time.monotonic() + seconds + SILENCE_S
    words: dict[Generator, Json] = {}
    with selectors.DefaultSelector() as selector:
        for each in generators:
            assert each.process.stdout is not None
            selector.register(each.process.stdout, selectors.EVENT_READ, each)
        while len(words) < len(generators):
            ready = selector.select(max(0.0, until_s - time.monotonic()))
            if not ready:
                silent = " and ".join(each.name for each in generators if each not in words)
                raise WrongAnswer(f"{silent}: no word for {seconds + SILENCE_S:g} s")
            for key, _ in ready:
                words[key.data] = key.data.take()
                selector.unregister(key.fileobj)
    return [words[each] for each in generators]


def cpu_at_rest_s(pid: int) -> float:
    """The CPU time of a process that has been asked for nothing more. What runs on another core is accounted when that
    core's clock ticks, every few milliseconds, or something else runs there: so wait until nothing is added.
    """
    before_s = -1.0
    now_s = cpu_s(pid)
    for _ in range(REST_TRIES):
        if now_s == before_s:
            break
        time.sleep(REST_S)
        before_s, now_s = now_s, cpu_s(pid)
    return now_s


def tell(word: Json) -> None:
    print(json.dumps(word), flush=True)
