"""The golden files: where they are, how directories are archived, which versions there are."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from coordinatord.broker.log.checkpoint import META_VERSION
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION
from kafka_wire.records.rebalance_ledger import VERSION as LEDGER_VERSION

FOLDER = Path(__file__).parents[1] / "golden" / "compat"
CURRENT = {"data": META_VERSION, "ledger": LEDGER_VERSION, "tables": STATE_VERSION}
ARCHIVE = "directory.tar.xz"
CONTENTS = "contents.json"
HOW_TO_GO_ON = (
    "If this is meant, it is a new version: increment it, migrate or refuse the old one, say so in CHANGELOG.md, and "
    "run `python -m tests.compat`"
)


def place(kind: str, version: int | None = None) -> Path:
    """The folder of a format's version, by default the current one."""
    return FOLDER / f"{kind}-{version or CURRENT[kind]}"


def all_versions(kind: str) -> list[int]:
    """The versions that are checked in, oldest first."""
    return sorted(int(path.name.removeprefix(f"{kind}-")) for path in FOLDER.glob(f"{kind}-*"))


def pack(directory: Path, archive: Path) -> None:
    """Archive a directory: the same files make the same bytes."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(directory.rglob("*")):
            info = tarfile.TarInfo(str(path.relative_to(directory)))
            info.mode = 0o755 if path.is_dir() else 0o644
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                content = path.read_bytes()
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def unpack(kind: str, version: int, directory: Path) -> Path:
    """Extract a golden directory into `directory`, and return that."""
    with tarfile.open(place(kind, version) / ARCHIVE) as tar:
        tar.extractall(directory, filter="data")
    return directory


def recorded(kind: str, version: int) -> Any:
    """The content that was recorded."""
    return json.loads((place(kind, version) / CONTENTS).read_text())


def record(kind: str, contents: Any, directory: Path) -> None:
    """Write the golden files of the current version of a format."""
    folder = place(kind)
    text = json.dumps(contents, indent=1, ensure_ascii=False) + "\n"
    folder.mkdir(parents=True)
    pack(directory, folder / ARCHIVE)
    (folder / CONTENTS).write_text(text)


def plain(contents: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(contents))


def digests(directory: Path) -> dict[str, str]:
    """Of each file by its path."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
