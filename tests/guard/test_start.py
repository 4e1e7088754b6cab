"""What a start imports until its first answer: how many modules, and which it must not.

Importing is nearly all of a start. A module costs 0.2 to 0.5 ms, so the number of modules says on any machine what the
benchmark's row `start` says on a quiet one.
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
from coordinatord.cli.options import load_or_exit
from coordinatord.cli import serve
from coordinatord.base.observe import logs
from coordinatord.server.daemon import deferred_imports, process

deferred_imports.MODULES = ()  # a busy machine may be slow to ask

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

OURS = 256
"""Modules of coordinatord and kafka_wire that a start may import. Those that come later are in
server/daemon/deferred_imports.py.
"""

ALL = 316
"""Modules of all packages, those of the interpreter's own start apart: 284 on CPython 3.11."""

BY_NEED = {
    "argparse": "the package crc32c",
    "coordinatord.transport.cluster.peers": "several workers",
    "coordinatord.server.daemon.secured": "listeners with TLS or SASL",
    "coordinatord.broker.metadata.scram": "SCRAM credentials",
    "coordinatord.transport.net.sasl_gate": "SASL",
    "cramjam": "compressed batches",
    "cryptography": "certificates of tests and of clients",
    "jwt": "OAUTHBEARER",
    "coordinatord.server.control": "tests",
    "coordinatord.coordination.group.consumer.step": "the consumer protocol",
    "coordinatord.coordination.group.consumer.assignors.range": "an assignment",
    "coordinatord.coordination.group.consumer.assignors.uniform": "an assignment",
    "coordinatord.broker.log.cleaning": "the log cleaner",
    "coordinatord.broker.topics.admin": "a request",
    "coordinatord.broker.topics.describe": "a request",
    "coordinatord.broker.topics.fetch": "a request",
    "coordinatord.broker.topics.produce": "a request",
    "encodings.idna": "hosts that are not ASCII",
    "coordinatord.server.daemon.embedded": "tests",
    "coordinatord.coordination.service.apis.admin": "a request",
    "coordinatord.coordination.service.apis.txn_offset_commit": "a request",
    "coordinatord.server.daemon.worker": "several workers",
    "coordinatord.coordination.runtime.error_response_table": "an error",
    "coordinatord.broker.topics.config_apis": "a request",
    "coordinatord.broker.topics.replicas": "a request",
    "coordinatord.coordination.transactions.apis.transactions": "a request",
    "coordinatord.coordination.transactions.remote_transactions": "several workers",
    "email": "the package crc32c",
    "importlib.metadata": "the package crc32c",
    "kafka_wire.api.write_txn_markers": "a request",
    "secrets": "SASL and TLS",
    "structlog": "a terminal",
}
"""Module -> what imports it, later or never."""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_a_start_imports_no_more_modules_than_it_did(imported: set[str]) -> None:
    ours = {name for name in imported if name.partition(".")[0] in ("coordinatord", "kafka_wire")}
    assert "coordinatord.server.daemon.daemon" in ours
    assert len(ours) <= OURS, f"{len(ours)} modules: {sorted(ours)}"
    assert len(imported) <= ALL, f"{len(imported)} modules: {sorted(imported - ours)}"


def test_what_is_needed_later_is_imported_later(imported: set[str]) -> None:
    found = {name: f"wanted by {what} alone" for name, what in BY_NEED.items() if name in imported}
    assert found == {}


LATER = """
import json, sys
from coordinatord.server.daemon import daemon, deferred_imports
slices = []
for module in deferred_imports.MODULES:
    before = set(sys.modules)
    deferred_imports.importlib.import_module(module)
    slices.append((module, sorted(set(sys.modules) - before)))
print(json.dumps(slices))
"""

SLICE = 5
"""Modules that one of deferred_imports.MODULES may bring, itself among them: meanwhile no request is answered."""


def test_what_comes_later_comes_in_small_slices() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    slices = dict(json.loads(done.stdout))
    assert [name for name, brought in slices.items() if name not in brought] == [], "a start imports them already"
    large = {name: brought for name, brought in slices.items() if len(brought) > SLICE}
    assert large == {}
