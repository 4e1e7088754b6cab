"""Write the golden files of each format whose current version has none yet.

    python -m tests.compat [data] [ledger] [tables]

The tables need Java 17 and Spark (make .venv/.spark). Files of a version that is checked in are never overwritten:
remove them first if they are wrong.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.compat import golden
from tests.compat.contents import contents
from tests.compat.ledger import ledger_contents, write_ledger
from tests.compat.script import write_data


def make(kind: str, directory: Path) -> None:
    """Write one format's files."""
    written = directory / "written"
    written.mkdir()
    if kind == "data":
        write_data(written)
        read = directory / "read"
        shutil.copytree(written / "stopped", read)
        golden.record(kind, contents(read), written)
    elif kind == "ledger":
        write_ledger(written)
        golden.record(kind, ledger_contents(written), written)
    else:
        from tests.compat.tables import declared, sparked, table_contents, write_tables

        with sparked(directory) as spark:
            write_tables(spark, written)
        golden.record(kind, {"declared": declared(), **table_contents(written)}, written)


def main() -> int:
    for kind in sys.argv[1:] or golden.CURRENT:
        if golden.place(kind).exists():
            print(f"{golden.place(kind)} exists")
            continue
        with tempfile.TemporaryDirectory() as directory:
            make(kind, Path(directory))
        print(f"{golden.place(kind)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
