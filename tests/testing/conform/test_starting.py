"""A broker of the user's, which runs as long as the stories need it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from coordinatord.testing.conform.starting import started
from tests.daemon import is_running

# It takes a while to end, as brokers do: the test does not wait for that time, but for the end.
LINGERS = """
import os, pathlib, signal, socket, sys, time

def end(*_):
    time.sleep(0.5)
    os._exit(0)

signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    server.accept()
"""


def test_the_broker_has_ended_when_the_block_ends(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with started(shlex.join([sys.executable, "-c", LINGERS, "{port}", str(pid)]), {}, 1.0):
        assert is_running(int(pid.read_text()))
    assert not is_running(int(pid.read_text())), "the next broker may get its port"
