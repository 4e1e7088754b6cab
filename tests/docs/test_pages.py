"""The pages of docs/ that are made from the code are those of this code. `--rewrite` writes them."""

from __future__ import annotations

import pytest

from kafka_wire.api_key import ApiKey
from tests.docs.pages import PAGES, handlers
from tests.structure.sources import ROOT, functions

DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_made_from_this_code(name: str, request: pytest.FixtureRequest) -> None:
    text = PAGES[name]()
    if request.config.getoption("--rewrite"):
        (DOCS / name).write_text(text)
    assert (DOCS / name).read_text() == text, "write it anew with --rewrite"


NOT_SERVED = {ApiKey.STREAMS_GROUP_DESCRIBE}
"""APIs that are declared, and have no handler."""


def test_every_declared_api_has_its_handler() -> None:
    found = handlers()
    assert found.keys() == set(ApiKey) - NOT_SERVED
    for path, function in found.values():
        assert function in dict(functions(ROOT / path)), f"{path} has no {function}"
