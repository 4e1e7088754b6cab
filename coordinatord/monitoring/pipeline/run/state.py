"""`OUT/state.json`: what the tables of a directory contain, and the version of everything in the directory.

    {"version": 4, "rules": 3, "batch": 4, "runs": 2, "at_ms": 1700000000000, "ledger": {"0": 17}, "chosen": {…}}

Needs no Spark: the report reads it, too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from coordinatord.monitoring.offsets_log.source.segments import SourceError

STATE_VERSION = 4
"""Of the state, facts, tables and checkpoints. 4: lags have bounds, and groups new statuses; 3: partition ends are part
of the stream; 2: facts of all kinds of the consumer protocol are stored. Tables are not migrated: a directory of
another version is refused.
"""
RULES = 3
"""Of what tables are made of the facts by: after a run of a program with others, all tables are made anew. 3: causes
of epochs where sessions are short, and who came where the generation before is lost, are right. 2: last commits of
members that ended, and records rewound by groups that never went back, are."""
FILE = "state.json"


def read_state(out: Path) -> dict[str, Any]:
    """The state; that of an empty directory if there is none. SourceError if it is damaged or of another version."""
    return find_state(out) or {"version": STATE_VERSION, "batch": -1, "runs": 0}


def find_state(out: Path) -> dict[str, Any] | None:
    """The state; None if no run has written one. SourceError if it is damaged or of another version."""
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
