"""Whether the generated modules belong to the declarations and the generator that are there.

`kafka_wire.generate` stores a digest of all that it reads; `kafka_wire.generated` compares it once, when the first of
the modules is imported. That takes a millisecond, in an installation as in a checkout: no other state is trusted, and a
stale module is never used.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent
GENERATED = PACKAGE / "generated"
DIGEST = GENERATED / "made_from.txt"
"""Written last: while modules are being written they are stale."""

DECLARATIONS = ("api", "records")
"""Folders of modules of which some declare messages."""
GENERATOR = ("schema.py", "generate.py", "layout/*.py")

DECLARES = b"\n@message("
"""What a module of declarations has in it."""


class NotGenerated(ImportError):
    """The generated modules are missing, or were made from other sources."""


def declaring() -> dict[str, bytes]:
    """The modules that declare messages: path within the package -> content."""
    found = {}
    for folder in DECLARATIONS:
        for path in sorted((PACKAGE / folder).glob("*.py")):
            data = path.read_bytes()
            if DECLARES in data:
                found[f"{folder}/{path.name}"] = data
    return found


def declared_modules() -> list[str]:
    """The dotted names of the modules that declare messages."""
    return [f"kafka_wire.{path.removesuffix('.py').replace('/', '.')}" for path in declaring()]


def digest() -> str:
    """Of everything that decides what the generated modules say."""
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
    """The digest that the generated modules were made from; None if there are none."""
    try:
        return DIGEST.read_text().strip()
    except FileNotFoundError:
        return None


def check() -> None:
    """Raise NotGenerated with a sentence that says what to do."""
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
