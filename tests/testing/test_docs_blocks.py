"""The Python blocks of the docs run as they stand there.

Each block with a test, in docs/testing.md and README.md, is a file of tests: pytest runs it without a conftest, with
the one setting that the page names. The other blocks of README.md and docs/acls.md are programs; of them only the
address is replaced.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing import Kafka

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[2]
FOREIGN = re.compile(r"^(?:from|import) (?:aiokafka|confluent_kafka|faststream)\b", re.M)
"""Imports of what the quick tests do not install."""


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.M)
RECIPES = [*blocks("docs/testing.md"), *filter(TEST.search, blocks("README.md"))]


def require_passed(pytester: pytest.Pytester, files: list[str]) -> None:
    """Run each block as a file; require that each of its tests, and at least one, passes."""
    assert files
    pytester.makeini("[pytest]\nasyncio_mode = auto\n")
    pytester.makepyfile(**{f"test_block_{number}": block for number, block in enumerate(files)})
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA", timeout=300)
    outcomes = result.parseoutcomes()
    assert set(outcomes) <= {"passed", "warnings", "warning"}, outcomes
    for number, block in enumerate(files):
        for name in TEST.findall(block):
            result.stdout.re_match_lines([rf"PASSED test_block_{number}\.py::{name}\b.*"])


def test_the_recipes_for_kafka_python_run(pytester: pytest.Pytester) -> None:
    require_passed(pytester, [block for block in RECIPES if not FOREIGN.search(block)])


@pytest.mark.clients
def test_the_recipes_for_other_clients_run(pytester: pytest.Pytester) -> None:
    for library in ("aiokafka", "confluent_kafka", "faststream.kafka"):
        pytest.importorskip(library)
    require_passed(pytester, [block for block in RECIPES if FOREIGN.search(block)])


def test_each_recipe_has_a_test() -> None:
    assert len(RECIPES) >= 10
    assert all(map(TEST.search, RECIPES))


@pytest.mark.parametrize(
    ("page", "address", "printed"),
    [("README.md", "127.0.0.1:9092", "b'hello'\n"), ("docs/acls.md", "kafka.example.org:9092", "")],
)
def test_the_programs_of_other_pages_run(
    page: str, address: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    (program,) = [block for block in blocks(page) if not TEST.search(block)]
    assert address in program
    names: dict[str, Any] = {}
    with Kafka(settings=settings) as kafka:
        exec(compile(program.replace(address, kafka.bootstrap_servers), page, "exec"), names)
        for client in ("consumer", "admin"):
            if client in names:
                names[client].close()
    assert capsys.readouterr().out == printed
