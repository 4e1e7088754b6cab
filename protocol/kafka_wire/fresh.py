"""Check that the generated modules were made from the present declarations and generator.

`kafka_wire.generate` stores a digest of all files that it reads. `kafka_wire.generated` compares the digest once, when
the first generated module is imported; that takes a millisecond. Installations and checkouts both do this, so a stale
module is never used.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent
GENERATED = PACKAGE / "generated"
DIGEST = GENERATED / "digest.txt"
"""File with the digest, written after all modules: without it, they count as stale."""

DECLARATIONS = ("api", "records")
"""Folders in which some modules declare messages."""
GENERATOR = ("schema.py", "generate.py", "layout/*.py")

DECLARES = b"\n@message("
"""The bytes that mark a module of declarations."""


class NotGenerated(ImportError):
    """The generated modules are missing, or were made from other sources."""


def declaring() -> dict[str, bytes]:
    """Return the modules that declare messages: path within the package -> content."""
    found = {}
    for folder in DECLARATIONS:
        for path in sorted((PACKAGE / folder).glob("*.py")):
            data = path.read_bytes()
            if DECLARES in data:
                found[f"{folder}/{path.name}"] = data
    return found


def declared_modules() -> list[str]:
    """Return the dotted names of the modules that declare messages."""
    return [f"kafka_wire.{path.removesuffix('.py').replace('/', '.')}" for path in declaring()]


def digest() -> str:
    """Return the SHA-256, in hexadecimal, of all files that determine the content of the generated modules."""
    made = hashlib.sha256()
    generator = {
        path.relative_to(PACKAGE).as_posix(): path.read_bytes()
        for pattern in GENERATOR
        for path in sorted(PACKAGE.glob(pattern))
    }
    for name, data in {**generator, **declaring()}.items():
        made.update(b"%s\0%d\0" % (name.encode(), len(data)))
        made.update(data)
    return made.hexdigest()


def stored() -> str | None:
    """Return the digest of the files that the generated modules were made from; None if there are no such modules."""
    try:
        return DIGEST.read_text().strip()
    except FileNotFoundError:
        return None


def check() -> None:
    """Raise NotGenerated, with a sentence about what to do, if the modules are missing or stale."""
    if not PACKAGE.is_dir():
        return  # imported from an archive, whose parts change only together
    if not (PACKAGE / "generate.py").exists():
        return  # installed without the generator (deploy/pyspark-consumer-offsets): only another wheel changes it
    found = stored()
    if found == digest():
        return
    what = (
        "have not been generated"
        if found is None
        else "are stale: a declaration or the generator has changed since they were generated"
    )
    raise NotGenerated(
        f"The codecs in {GENERATED} {what}. Run `python -m kafka_wire generate`; `make` does so by itself."
    )
