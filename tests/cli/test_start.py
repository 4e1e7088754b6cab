"""What a start imports: each of these would cost every start milliseconds and every daemon megabytes."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from coordinatord.cli import cli
from coordinatord.cli import serve
from coordinatord.cli.settings_options import load_or_exit
from coordinatord.server.daemon import process
from coordinatord.base.observe import admin, logs
loaded = load_or_exit(None, (), {"listen": "127.0.0.1:0"})
logs.configure("json", "info")
print(*sorted(sys.modules))
"""

NOT_NEEDED = {
    "coordinatord.cli.settings": "another command",
    "coordinatord.base.config.ignored_settings": "only where a name is not ours",
    "coordinatord.base.observe.exposition": "the admin thread imports it",
    "coordinatord.base.observe.web": "the admin thread imports it",
    "coordinatord.base.observe.web_server": "the admin thread imports it",
    "difflib": "only where a name is mistyped",
    "http.server": "the admin thread imports it",
    "javaproperties": "only for a properties file",
    "multiprocessing": "nobody",
    "prometheus_client": "the admin thread imports it",
    "pygments": "rich's",
    "rich": "structlog would import it wherever it is installed",
    "greenlet": "structlog would import it wherever it is installed",
    "email": "the package crc32c would import it for its version",
    "argparse": "the package crc32c would import it for a command line",
    "importlib.metadata": "the package crc32c would import it for its version",
    "tomllib": "only for a TOML file",
}


def test_a_start_imports_only_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    imported = set(done.stdout.split())
    assert {"click", "coordinatord.base.observe.logs"} <= imported
    assert sorted(imported & NOT_NEEDED.keys()) == []


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "coordinatord", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("coordinatord ")
