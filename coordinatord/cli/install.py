"""The command that installs extras of this coordinatord, whether it comes from an index, a wheel, or a clone of the
repository.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "coordinatord"


def how_to_install(*extras: str) -> str:
    """Return the command that adds extras to the running Python."""
    return f"{_pip()} install {_what(','.join(extras))}"


def _pip() -> str:
    """Return `pip` if it belongs to this Python, as in an active virtual environment, else the longer command."""
    found = shutil.which("pip")
    if found is not None and os.path.dirname(found) == os.path.dirname(sys.executable):
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def _what(extras: str) -> str:
    from importlib.metadata import PackageNotFoundError, distribution  # commands that work do not need it

    try:
        # PEP 610: pip records the origin of packages that do not come from an index.
        origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").is_file():  # false in site-packages
        return "--editable " + shlex.quote(f"{clone}[{extras}]")
    if isinstance(origin.get("url"), str):
        return shlex.quote(f"{NAME}[{extras}] @ {origin['url']}")
    return shlex.quote(f"{NAME}[{extras}]")
