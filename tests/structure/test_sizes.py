"""What can be held in the head: no long function, no long file, nothing loose at the top."""

from __future__ import annotations

from tests.structure.sources import PACKAGES, ROOT, functions, written

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{each.lineno} {name}: {lines} lines"
        for path in written()
        for name, each in functions(path)
        if (lines := (each.end_lineno or 0) - each.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_no_file_is_longer_than_one_reads_at_once() -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in written()}
    long = [f"{path.relative_to(ROOT)}: {size} lines" for path, size in sizes.items() if size > MAX_FILE_LINES]
    assert not long, "\n".join(long)


def test_nothing_lies_loose_at_the_top() -> None:
    assert {path.name for path in PACKAGES["coordinatord"].glob("*.py")} <= {"__init__.py", "__main__.py"}
    assert not list(PACKAGES["kafka_wire"].parent.glob("*.py"))


def test_no_two_rooms_differ_by_an_s() -> None:
    rooms = {path.name for path in PACKAGES["coordinatord"].iterdir() if path.is_dir()}
    assert not [room for room in rooms if f"{room}s" in rooms]
