"""`OUT/state.json`: the content of a directory's tables, and the version of everything in the directory.

    {"version": 6, "rules": 3, "batch": 4, "runs": 2, "at_ms": 1700000000000, "ledger": {"0": 17}, "chosen": {…}}

Does not need Spark: the report reads this file, too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from coordinatord.monitoring.offsets_log.source.segments import SourceError

STATE_VERSION = 6
"""Version of the state, facts, tables and checkpoints. 6: the position in the log is in position.json and not in a
checkpoint of Spark; 5: the members of share groups are facts; 4: lags have bounds, and groups new statuses; 3:
partition ends are part of the stream; 2: facts of all kinds of the consumer protocol are stored. Tables are not
migrated: a directory of another version is rejected.
"""
RULES = 3
"""Version of the rules by which tables are made from the facts: when a program with other rules runs, all tables are
made again. 3: corrects the causes of epochs with short sessions, and the joined members where the previous generation
is lost. 2: corrects the last commits of members that ended, and the rewound records of groups that never went back."""
FILE = "state.json"


def read_state(out: Path) -> dict[str, Any]:
    """Return the state; that of an empty directory if there is none. Raises SourceError if it is damaged or of another
    version.
    """
    return find_state(out) or {"version": STATE_VERSION, "batch": -1, "runs": 0}


def find_state(out: Path) -> dict[str, Any] | None:
    """Return the state; None if no run has written one. Raises SourceError if it is damaged or of another version."""
    path = out / FILE
    try:
        state = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise SourceError(f"{path} cannot be read: remove it, and a run rebuilds all tables") from None
    version = state.get("version") if isinstance(state, dict) else None
    if version == STATE_VERSION:
        found: dict[str, Any] = state
        return found
    this = f"{out} has tables of version {version}, and this program reads version {STATE_VERSION}"
    if isinstance(version, int) and version > STATE_VERSION:
        raise SourceError(f"{this}: use the later coordinatord that wrote them, or give an empty directory with --out")
    raise SourceError(f"{this}: give `pipeline run` an empty directory with --out, and it makes them from the log")


def write_state(out: Path, state: dict[str, Any]) -> None:
    """Replace the state, atomically."""
    staged = out / f"_{FILE}"
    staged.write_text(json.dumps(state) + "\n")
    os.replace(staged, out / FILE)
