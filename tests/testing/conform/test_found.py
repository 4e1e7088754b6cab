"""The tables of docs/conformance.md are those of what was found."""

from __future__ import annotations

from tests.testing.conform.found import ORDER, PAGE, kept, page, stored


def test_the_page_has_the_tables_of_what_was_found() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "python -m tests.testing.conform.found"
    assert [each["broker"] for each in stored()] == list(ORDER)


def test_a_story_differs_if_it_does_so_each_time() -> None:
    def report(**verdicts: str) -> dict[str, object]:
        first = {"request": "A: JoinGroup v9 x=1", "expected": ["a", "b"], "got": ["a", "c"]}
        return {
            "stories": [
                {"story": name, "chapter": "c", "verdict": verdict, "differences": [first]}
                for name, verdict in verdicts.items()
            ]
        }

    found = kept(
        "kfake",
        [report(once="differs", always="differs", never="not played"), report(once="same", always="differs")],
    )["stories"]
    assert {name: each["verdict"] for name, each in found.items()} == {
        "once": "same", "always": "differs", "never": "not played",
    }  # fmt: skip
    assert found["always"]["first"] == {"request": "JoinGroup", "kafka": "b", "it": "c"}
