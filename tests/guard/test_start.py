"""The number of modules that a start imports until its first response.

Importing is nearly all of a start, so this number limits its duration on any machine, as the benchmark's row `start`
does on a quiet one.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.interpreted

PROGRAM = """
import asyncio, json, struct, sys, tempfile
before = set(sys.modules)
from coordinatord.cli.settings_options import load_or_exit
from coordinatord.cli import serve
from coordinatord.base.observe import logs
from coordinatord.server.daemon import process

async def first_answer(host, port):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))
    return (await reader.readexactly(10))[4:]

def ask(daemon):
    async def asking():
        _name, host, port = daemon.bound[0]
        assert await first_answer(host, port) == struct.pack(">ih", 1, 0)
        print(json.dumps(sorted(set(sys.modules) - before)))
        daemon.request_stop("done")
    daemon.asking = daemon.loop.create_task(asking())

with tempfile.TemporaryDirectory() as directory:
    settings = load_or_exit(None, (), {"listen": "127.0.0.1:0", "data-dir": directory}).settings
    logs.configure("json", "error")
    assert process.run(settings, ask) == 0
"""

MODULES = 383
"""Modules of all packages that a start may import, without those of the interpreter's own start."""

OPTIONAL = {"OpenSSL", "coordinatord.coordination.share", "cryptography", "numba", "psycopg", "re2"}
"""Large dependencies and parts of features that few users need. They are imported where they are first used."""


def test_a_start_imports_few_modules() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    imported = set(json.loads(done.stdout))
    assert "coordinatord.server.daemon.daemon" in imported
    assert imported.isdisjoint(OPTIONAL)
    assert len(imported) <= MODULES, f"{len(imported)} modules: {sorted(imported)}"
