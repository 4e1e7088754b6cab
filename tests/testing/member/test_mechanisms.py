"""What the articles describe, where it is and which test shows it: mechanisms.toml, held to the code and to the README.

`--rewrite` writes the tables of coordinatord/testing/member/README.md anew.
"""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.daemon import REPOSITORY

SOURCE = Path(__file__).with_name("mechanisms.toml")
README = REPOSITORY / "coordinatord" / "testing" / "member" / "README.md"
BEGIN, END = "<!-- mechanisms: written by tests/testing/member/test_mechanisms.py -->\n", "<!-- end of mechanisms -->\n"
TITLES = [
    "消费者——心跳",
    "Kafka 源码解析之 Consumer Poll 模型",
    "序列07-Consumer-coordinator协议与heartbeat实现原理",
    "5.4.7 延迟的心跳",
    "Kafka消费者JoinGroupRequest流程解析",
]


class Mechanism(NamedTuple):
    what: str
    where: str  # "module:name" below coordinatord
    test: str  # "file:function" below tests, or a scenario file
    differs: str = ""


class Article(NamedTuple):
    title: str
    about: str
    rows: list[Mechanism]


def articles() -> list[Article]:
    read = tomllib.loads(SOURCE.read_text())["article"]
    return [Article(each["title"], each["about"], [Mechanism(*row) for row in each["rows"]]) for each in read]


ARTICLES = articles()
ROWS = [row for article in ARTICLES for row in article.rows]


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The names of a file's test functions, without running it."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(each.name for each in ast.parse(path.read_text()).body if isinstance(each, functions))


def path_of(test: str) -> Path:
    """The file of a test."""
    name = test.partition(":")[0]
    if name.endswith(".txt"):
        folder, _, rest = name.partition("/scenarios/")
        return REPOSITORY / "tests" / folder / "scenarios" / rest
    return REPOSITORY / "tests" / f"{name}.py"


def test_every_article_is_there_and_says_each_thing_once() -> None:
    assert [each.title for each in ARTICLES] == TITLES
    for article in ARTICLES:
        told = [row.what for row in article.rows]
        assert sorted(set(told)) == sorted(told), article.title


def test_only_what_is_different_on_purpose_may_be_nowhere() -> None:
    for row in ROWS:
        assert row.what, row
        assert row.differs or (row.where and row.test), row


@pytest.mark.parametrize("where", sorted({row.where for row in ROWS if row.where}))
def test_the_code_is_where_it_is_said_to_be(where: str) -> None:
    module, _, names = where.partition(":")
    found = importlib.import_module(f"coordinatord.{module}")
    for name in names.split("."):
        assert hasattr(found, name), f"{where}: no {name}"
        found = getattr(found, name)


@pytest.mark.parametrize("test", sorted({row.test for row in ROWS if row.test}))
def test_the_test_is_where_it_is_said_to_be(test: str) -> None:
    path = path_of(test)
    assert path.is_file(), test
    name = test.partition(":")[2]
    if name or path.suffix == ".py":
        assert name.startswith("test_"), test
        assert name in functions_of(path), test


def test_the_readme_has_the_tables(request: pytest.FixtureRequest) -> None:
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{README.name} has no place for them"
    expected = before + BEGIN + "".join(tables()) + END + after
    if request.config.getoption("--rewrite"):
        README.write_text(expected)
    else:
        assert text == expected, "write it anew with --rewrite"


def tables() -> Iterator[str]:
    """The README's section, line by line."""
    yield "\n| article | about | mechanisms | here | at the coordinator | different on purpose |\n"
    yield "|---|---|---|---|---|---|\n"
    for article in ARTICLES:
        yield f"| {article.title} | {article.about} | {counts(article.rows)} |\n"
    yield f"| all | | {counts(ROWS)} |\n"
    for article in ARTICLES:
        yield f"\n<details><summary>{article.title}</summary>\n\n"
        yield "| the article | where | shown by | different, and why |\n|---|---|---|---|\n"
        for row in article.rows:
            where = f"`{row.where.replace(':', '.')}`" if row.where else ""
            yield f"| {row.what} | {where} | {shown(row.test)} | {row.differs} |\n"
        yield "\n</details>\n"


def counts(rows: list[Mechanism]) -> str:
    here = [row for row in rows if row.where.startswith("testing.member.")]
    nowhere = [row for row in rows if not row.where]
    different = [row for row in rows if row.differs]
    return f"{len(rows)} | {len(here)} | {len(rows) - len(here) - len(nowhere)} | {len(different)}"


def shown(test: str) -> str:
    """A link to the test's file, with the test's name."""
    if not test:
        return ""
    name = test.partition(":")[2] or path_of(test).name
    return f"[{name}](../../../{path_of(test).relative_to(REPOSITORY)})"
