"""`coordinatord conform`: comparison of a broker's responses with those of Apache Kafka."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from coordinatord.base.config.address import parse_listener
from coordinatord.base.config.setting_types import Unacceptable
from coordinatord.cli.options import BAD_SETTINGS, fail
from coordinatord.cli.terminal import echo, echo_data, echo_text
from coordinatord.testing.conform import starting
from coordinatord.testing.conform.explain import explain as explained
from coordinatord.testing.conform.outcome import Outcome, Verdict
from coordinatord.testing.conform.page import page
from coordinatord.testing.conform.report import as_json, junit, text
from coordinatord.testing.conform.selection import TAKES_MINUTES, by_settings
from coordinatord.testing.conform.story import EARLIER, RELEASE, Story, all_stories
from coordinatord.testing.conform.suite import AT_ONCE, GONE, play_all
from coordinatord.testing.conform.target import Target, Unsuitable

EMPTY: Mapping[str, str] = {}
_CONSUMER_APIS = {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}


@click.command()
@click.option("--bootstrap", metavar="HOST:PORT", help="The broker. It must be the only one of its cluster.")
@click.option(
    "--start",
    "command",
    metavar="COMMAND",
    help="Instead of --bootstrap: start a broker for each set of settings. {port}, {properties} and {directory} in "
    "COMMAND become a free port of 127.0.0.1, a file with settings and an empty directory.",
)
@click.option("--only", metavar="PATTERN", multiple=True, help="Play these stories: static_*. Can be repeated.")
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"]),
    help="Play the stories of one group protocol; those of migrations belong to consumer.",
)
@click.option("--slow", is_flag=True, help="Play stories that take minutes, too.")
@click.option(
    "--as",
    "release",
    type=click.Choice([*EARLIER, RELEASE]),
    default=RELEASE,
    show_default=True,
    help="Compare with the answers of this release of Kafka.",
)
@click.option(
    "--assume", metavar="NAME=VALUE", multiple=True, help="A setting of the broker that cannot be read from it."
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 600), default=40, show_default=True, metavar="SECONDS")
@click.option(
    "--parallel", type=click.IntRange(1, 200), default=AT_ONCE, show_default=True, help="Stories played at a time."
)
@click.option("--explain", metavar="STORY", help="Play one story and show it frame by frame.")
@click.option("--list", "is_list", is_flag=True, help="List the stories and exit.")
@click.option("--settings", "is_settings", is_flag=True, help="Print the settings that most stories need and exit.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path), metavar="FILE", help="Write JUnit XML.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
def conform(
    bootstrap: str | None,
    command: str | None,
    only: tuple[str, ...],
    group_protocol: str | None,
    slow: bool,
    release: str,
    assume: tuple[str, ...],
    timeout_s: float,
    parallel: int,
    explain: str | None,
    is_list: bool,
    is_settings: bool,
    is_json: bool,
    junit_file: Path | None,
    html_file: Path | None,
) -> None:
    """Compare a broker's responses with Apache Kafka's.

    Plays recorded stories: requests of the group, offset and transaction APIs, with the answers that Apache Kafka 4.4
    gave. Everything that they create on the broker has a name that begins with conform-, and is deleted at the end.
    Exit status: 0 if all answers that were compared are Kafka's, 1 if some differ, 2 if nothing could be compared.

    \b
    coordinatord conform --bootstrap 127.0.0.1:9092
    coordinatord conform --bootstrap 127.0.0.1:9092 --explain static_restart
    coordinatord conform --html report.html --start 'coordinatord serve \\
        -c {properties} --listen 127.0.0.1:{port} --data-dir {directory}'
    """
    stories = [story.as_of(release) for story in _chosen([explain] if explain else only, group_protocol)]
    if is_list:
        _list(stories)
    elif is_settings:
        echo_data(starting.properties(by_settings(stories)[0][0]))
    elif (bootstrap is None) == (command is None):
        fail("Say either --bootstrap HOST:PORT or --start COMMAND.", status=BAD_SETTINGS)
    else:
        assumed = dict(_assignment(each) for each in assume)
        suite = _Suite(stories, assumed, slow or explain is not None, parallel, timeout_s)
        try:
            with _sigterm_as_ctrl_c():
                outcomes = suite.on_target(bootstrap) if bootstrap is not None else suite.on_started(command or "")
        except Unsuitable as error:
            fail(str(error), status=BAD_SETTINGS)
        broker = bootstrap or (command or "").split()[0]
        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        _write(junit_file, lambda: junit(outcomes, broker))
        _write(html_file, lambda: page(outcomes, broker, when))
        if explain:
            echo_text(explained(outcomes[0]))
        elif is_json:
            echo_text(json.dumps(as_json(outcomes, {"broker": broker, "time": when, "left": suite.left}), indent=2))
        else:
            echo_text(text(outcomes, suite.left))
        _exit(outcomes)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C: both stop a broker that this command started, or delete everything that it created on
    another broker. This also covers background jobs, for which a shell ignores SIGINT.
    """
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, interrupt)


def _exit(outcomes: Sequence[Outcome]) -> NoReturn:
    verdicts = {outcome.verdict for outcome in outcomes}
    if verdicts == {Verdict.NOT_PLAYED}:
        fail("No story could be played.", status=BAD_SETTINGS)
    raise SystemExit(1 if Verdict.DIFFERS in verdicts else 0)


@dataclass
class _Suite:
    """The stories to play, and their options. `left`: resources that could not be deleted from the broker."""

    stories: Sequence[Story]
    assumed: Mapping[str, str]
    is_slow_wanted: bool
    parallel: int
    timeout_s: float
    left: list[str] = field(default_factory=list)

    def on_target(self, bootstrap: str) -> list[Outcome]:
        """Play the stories on a running broker."""
        try:
            listener = parse_listener(bootstrap)
        except Unacceptable as error:
            raise Unsuitable(f"--bootstrap {error}.") from None
        return self._play(
            Target(listener.host or "127.0.0.1", listener.port, self.timeout_s),
            self.stories,
            is_own=False,
            at_once=self.parallel,
        )

    def on_started(self, command: str) -> list[Outcome]:
        """Play them on brokers of their own."""
        starting.check(command)
        found: dict[str, Outcome] = {}
        for settings, members in by_settings(self.stories, is_told=starting.takes_settings(command)):
            if all(story.slow for story in members) and not self.is_slow_wanted:
                found |= {story.name: Outcome(story, why=TAKES_MINUTES, is_played=False) for story in members}
            else:
                found |= {outcome.story.name: outcome for outcome in self._on_own(command, settings, members)}
        return [found[story.name] for story in self.stories]

    def _on_own(self, command: str, settings: Mapping[str, str], stories: Sequence[Story]) -> list[Outcome]:
        """Return the outcomes on a broker with these settings. If a story ends the broker, the interrupted stories are
        played on further brokers, one by one until the story is found, so that each story has an outcome of its own.
        """
        done: list[Outcome] = []
        at_once = self.parallel
        while stories:
            with starting.started(command, settings, self.timeout_s) as target:
                outcomes = self._play(target, stories, is_own=True, settings=settings, at_once=at_once)
            cut = [each for each in outcomes if each.why == GONE and not (at_once == 1 and each.is_played)]
            done += [outcome for outcome in outcomes if outcome not in cut]
            if at_once == 1 and len(cut) == len(stories):
                return done + cut
            # One of the interrupted stories has ended the broker: these stories come first, one by one.
            stories = [each.story for each in sorted(cut, key=lambda each: not each.is_played)]
            at_once = self.parallel if at_once == 1 else 1
        return done

    def _play(
        self,
        target: Target,
        stories: Sequence[Story],
        *,
        is_own: bool,
        at_once: int,
        settings: Mapping[str, str] = EMPTY,
    ) -> list[Outcome]:
        played = play_all(
            target,
            stories,
            f"conform-{secrets.token_hex(3)}",
            assumed={**settings, **self.assumed},
            is_slow_wanted=self.is_slow_wanted,
            is_own=is_own,
            at_once=at_once,
            tell=_progress,
        )
        outcomes, left = asyncio.run(played)
        self.left += left if not is_own else []
        return outcomes


def _progress(outcome: Outcome) -> None:
    if sys.stderr.isatty() and outcome.verdict is not Verdict.NOT_PLAYED:
        echo(f"  {outcome.verdict.value:<8} {outcome.story.name}", err=True)


def _chosen(patterns: Sequence[str], group_protocol: str | None) -> list[Story]:
    stories = all_stories()
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(story.name, pattern) for story in stories):
            fail(f"No story is called {pattern}: --list names all.", status=BAD_SETTINGS)
    if patterns:
        stories = [story for story in stories if any(fnmatch.fnmatchcase(story.name, each) for each in patterns)]
    if group_protocol is not None:
        stories = [story for story in stories if _is_consumer(story) == (group_protocol == "consumer")]
        if not stories:
            fail(f"None of these stories is about the {group_protocol} protocol.", status=BAD_SETTINGS)
    return stories


def _is_consumer(story: Story) -> bool:
    return any(step.api in _CONSUMER_APIS for step in story.steps)


def _list(stories: Sequence[Story]) -> None:
    width = max(len(story.name) for story in stories)
    for story in stories:
        first = next(part for part in story.parts if isinstance(part, str) and part.startswith("#"))
        echo(f"{story.name:<{width}}  {first.removeprefix('# ')}")


def _assignment(given: str) -> tuple[str, str]:
    name, separator, value = given.partition("=")
    if not separator or not name:
        fail(f"--assume {given}: write NAME=VALUE.", status=BAD_SETTINGS)
    return name.strip(), value.strip()


def _write(file: Path | None, content: Callable[[], str]) -> None:
    if file is None:
        return
    try:
        file.write_text(content(), "utf-8")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror or error}.", status=BAD_SETTINGS)
