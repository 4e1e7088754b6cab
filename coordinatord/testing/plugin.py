"""Plugin of pytest: fixtures `kafka`, `kafka_session`, `kafka_process`, the marker `kafka`, two options.

    @pytest.mark.kafka(topics={"orders": 4}, settings={"group.max.size": 5}, seed=7)
    def test_it(kafka): ...

    pytest --kafka=thread|process|HOST:PORT    # server of the fixtures; thread is the default
    pytest --kafka-log=fail|always             # tests for which the coordinator's log is shown

pytest imports this module in every run of every environment with coordinatord: it imports no other module of
coordinatord until a fixture is used.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coordinatord.testing.kafka import Kafka

FIXTURES = frozenset({"kafka", "kafka_process", "kafka_session"})
NEEDS_ASYNCIO = (
    "No plugin runs this asynchronous test: `pip install pytest-asyncio`, and in pyproject.toml under "
    '[tool.pytest.ini_options] say asyncio_mode = "auto".'
)
ARGUMENTS = ("topics", "settings", "seed")
MARKER = (
    "kafka(topics={name: partitions}, settings={name: value}, seed=0): what the fixture kafka begins with; markers of "
    "a module, a class and a test add up (coordinatord)"
)

_STARTED = pytest.StashKey[list["Kafka"]]()
_LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--kafka` and `--kafka-log`."""
    group = parser.getgroup("kafka", "Kafka for tests (coordinatord)")
    group.addoption(
        "--kafka",
        dest="kafka_where",
        metavar="thread|process|HOST:PORT",
        default="thread",
        help="where the Kafka of the fixtures runs: a coordinatord in a thread (the default) or in a process, or a "
        "broker that runs already; what only coordinatord can do is skipped there",
    )
    group.addoption(
        "--kafka-log",
        dest="kafka_log",
        choices=("fail", "always"),
        default="fail",
        help="when the log of the fixtures' coordinatord is shown (default: with a test that fails)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `kafka`."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A `Kafka` for this test alone, with the topics, settings and seed of the test's markers."""
    yield from _running(request, request.config.getoption("kafka_where"), **_arguments(request.node))


@pytest.fixture
def kafka_process(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A `Kafka` for this test alone, as a separate process, as in production; or the broker that --kafka names."""
    where = request.config.getoption("kafka_where")
    yield from _running(request, "process" if where == "thread" else where, **_arguments(request.node))


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """One `Kafka` for all tests of this process, without markers: tests share its topics and groups."""
    yield from _running(request, request.config.getoption("kafka_where"))


def _running(request: pytest.FixtureRequest, where: str, **arguments: Any) -> Iterator[Kafka]:
    from coordinatord.testing import report
    from coordinatord.testing.kafka import Kafka
    from coordinatord.testing.problems import KafkaError, KafkaLeftovers

    lines = request.node.stash.setdefault(_LINES, [])
    with report.logged(lines):
        try:
            started = Kafka(where, **arguments)
            started._skip = pytest.skip
            started.start()
        except KafkaError as error:
            pytest.fail(str(error), pytrace=False)
        request.node.stash.setdefault(_STARTED, []).append(started)
        try:
            yield started
            has_failed = bool(getattr(request.node, "kafka_failed", False))
            for each in [] if has_failed else report.leftovers(started):
                warnings.warn(KafkaLeftovers(f"{request.node.name}: {each}"), stacklevel=1)
        finally:
            started.stop()
            request.node.stash[_STARTED].remove(started)
            if request.config.getoption("kafka_log") == "always":
                print("\n".join([*lines, started._server.log()]))  # noqa: T201  # pytest shows it


def _arguments(node: Any) -> dict[str, Any]:
    """Return the arguments of a test's markers; closer markers override outer ones."""
    found: dict[str, Any] = {"topics": {}, "settings": {}}
    for marker in reversed(list(node.iter_markers("kafka"))):
        unknown = [name for name in marker.kwargs if name not in ARGUMENTS]
        if unknown or marker.args:
            what = f"{', '.join(unknown)}" if unknown else "arguments without a name"
            pytest.fail(f"@pytest.mark.kafka takes {', '.join(ARGUMENTS)}, not {what}.", pytrace=False)
        for name, value in marker.kwargs.items():
            found[name] = {**found[name], **value} if name in ("topics", "settings") else value
    return found


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail an asynchronous test that no other plugin runs, with the setting that it needs: pytest's own message lacks
    it.
    """
    if inspect.iscoroutinefunction(pyfuncitem.obj) and FIXTURES.intersection(pyfuncitem.fixturenames):
        pytest.fail(NEEDS_ASYNCIO, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the state and the log of its `Kafka` to the report of a failed test."""
    made: Any = yield
    started = item.stash.get(_STARTED, [])
    session = item.session.stash.get(_STARTED, [])
    if made.failed and call.when == "call" and (started or session):
        from coordinatord.testing import report

        item.kafka_failed = True  # type: ignore[attr-defined]
        for each in [*started, *session]:
            made.sections.extend(report.sections(each))
            if text := each._server.log():
                made.sections.append(("kafka: log of the process", text))
        if lines := [*item.stash.get(_LINES, []), *item.session.stash.get(_LINES, [])]:
            made.sections.append(("kafka: log", "\n".join(lines)))
    return made  # type: ignore[no-any-return]
