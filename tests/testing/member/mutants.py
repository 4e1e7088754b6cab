"""Members with one mistake each. Every one of them has to be noticed by the tests of this folder.

    python -m tests.testing.member.mutants              all of them: which tests notice which, in about a minute
    python -m tests.testing.member.mutants "NAME"       one of them, with what the tests say

A mutant is a place in the source, and what stands there instead. The tests run in a process of their own, in which the
module is loaded from the mutant's source. First come the scenario files, then the rows; one that notices is enough.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import NamedTuple

import click

from tests.daemon import REPOSITORY

HERE = Path(__file__).parent
TESTS = (
    "scenarios",
    "heartbeats",
    "joining",
    "polling",
    "committing",
    "timers",
    "metrics",
    "custom_assignors",
    "nodes",
    "world",
)
SHELL = ("connections", "wire")
CONSUMER = ("consumer_membership", "consumer_reconciling", "consumer_world", "consumer_like_others")
LIMIT_S = 120.0
HANGS_S = 10  # a test that takes so long does not end: it takes a tenth of a second otherwise


class Mutant(NamedTuple):
    """`module` of coordinatord.testing.member; `source` is there once. `tests` are to notice it."""

    module: str
    source: str
    instead: str
    tests: tuple[str, ...] = TESTS


MUTANTS: dict[str, Mutant] = {
    # The three timers
    "a timer expires a millisecond late": Mutant(
        "timer", "return now_ms >= self.deadline_ms", "return now_ms > self.deadline_ms"
    ),
    "an answer begins no new session": Mutant(
        "timer", "        self.session.deadline_ms = now_ms + self.session_timeout_ms\n", ""
    ),
    "the next heartbeat is due an interval later": Mutant(
        "timer",
        "self.heartbeat.deadline_ms = now_ms + self.heartbeat_interval_ms",
        "self.heartbeat.deadline_ms = now_ms + 2 * self.heartbeat_interval_ms",
    ),
    "back-off does not grow": Mutant("timer", "grown *= BACKOFF_BASE", "grown *= 1"),
    "a poll does not show that the application is alive": Mutant(
        "timer", "        self.poll.deadline_ms = now_ms + self.max_poll_interval_ms\n", "        pass\n"
    ),
    "a negative timeout is taken": Mutant("timer", "if timeout_ms < 0:", "if False:"),
    "a timer does not know when it began": Mutant("timer", "        self.start_ms = now_ms\n", ""),
    "the last poll is forgotten": Mutant(
        "timer", "self.last_poll_ms = self.poll.start_ms = now_ms", "self.poll.start_ms = now_ms"
    ),
    # Calls
    "a second call is taken": Mutant("calls", "    if under_way:\n", "    if False:\n"),
    "a closed consumer takes calls": Mutant("calls", "    if member.closed:\n", "    if False:\n"),
    "a close does not wait for commits": Mutant("polling", "pending = _awaited(member)", "pending = 0"),
    "a close waits for a join": Mutant(
        "polling", "type(each.request) not in (JoinGroupRequest, SyncGroupRequest)", "True"
    ),
    "a rejoin does not wait for the coordinator's responses": Mutant(
        "joining", "member.settings.single_threaded and member.join is None and member.pending_requests", "False"
    ),
    # What is known and measured
    "a fetch does not tell the high watermark": Mutant(
        "fetching", "state.high_watermark = data.high_watermark", "pass"
    ),
    "a commit is not remembered": Mutant("committing", "            state.committed = offset\n", "            pass\n"),
    "heartbeats are not measured": Mutant(
        "heartbeats", "    member.metrics.heartbeat_latency.record(now_ms - send.sent_ms)\n", ""
    ),
    "nobody is told what helps against a poll that comes too late": Mutant(
        "heartbeats", "    result.warnings.append(", "    (lambda _warning: None)("
    ),
    # Assignors
    "an unknown assignor is offered": Mutant(
        "state", "if unknown or not self.partition_assignment_strategy:", "if False:"
    ),
    "user data stay at home": Mutant("joining", "assignor.subscription_user_data(member.subscription)", "None"),
    # Nodes
    "the busiest node is asked": Mutant("nodes", "return min(ready,", "return max(ready,"),
    "a node that failed is asked again at once": Mutant(
        "nodes",
        "link.retry_at_ms = now_ms + self._backoff.after_ms(link.failures)",
        "link.retry_at_ms = now_ms",
    ),
    "the back-off of a node does not grow": Mutant("nodes", "link.failures += 1", "link.failures = 0"),
    "nobody begins again with the bootstrap servers": Mutant(
        "nodes", "if chosen is None and self._rebootstraps", "if False and self._rebootstraps"
    ),
    "the coordinator has no connection of its own": Mutant(
        "connections", "return (send.to, True), self._member", "return (send.to, False), self._member", SHELL
    ),
    "only the bootstrap servers are asked": Mutant(
        "connections",
        "chosen = nodes.choose_for_metadata(now_ms) if of_metadata else nodes.choose(now_ms)",
        "chosen = -1",
        SHELL,
    ),
    "a static member goes out as a dynamic one": Mutant("wire", "if version < static_since and", "if False and", SHELL),
    # The heartbeat's states, and what it makes of answers
    "nobody looks at the poll timer": Mutant("heartbeats", "heartbeat.poll.is_expired(now_ms)", "False"),
    "an application within a poll is taken for dead": Mutant("heartbeats", "not member.in_poll and ", ""),
    "REBALANCE_IN_PROGRESS is no sign of life": Mutant(
        "heartbeats",
        "            _failed(member, now_ms)\n        else:\n            _received(member, now_ms)",
        "            _failed(member, now_ms)\n        else:\n            _failed(member, now_ms)",
    ),
    "REBALANCE_IN_PROGRESS asks for no rejoin": Mutant(
        "heartbeats", 'member.request_rejoin("group is already rebalancing")', "pass"
    ),
    "ILLEGAL_GENERATION forgets the member id": Mutant(
        "heartbeats", "keep_member_id = error is ErrorCode.ILLEGAL_GENERATION", "keep_member_id = False"
    ),
    "UNKNOWN_MEMBER_ID keeps the member id": Mutant(
        "heartbeats", "keep_member_id = error is ErrorCode.ILLEGAL_GENERATION", "keep_member_id = True"
    ),
    "news of an earlier generation count": Mutant(
        "heartbeats", "if send.generation != member.generation:", "if False:"
    ),
    "nobody is told of FENCED_INSTANCE_ID": Mutant(
        "heartbeats", "if error is ErrorCode.FENCED_INSTANCE_ID:", "if False:"
    ),
    "a coordinator that is none is believed": Mutant(
        "heartbeats",
        "if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):",
        "if False:",
    ),
    # Failover
    "a coordinator that was found gets no new session": Mutant(
        "finding", "    member.heartbeat.reset_session_timeout(now_ms)\n", ""
    ),
    "answers of the coordinator that is gone still count": Mutant("finding", "send.abandoned = True", "pass"),
    "without a thread no heartbeat follows a failover": Mutant(
        "step", "heartbeats.schedule_task(member, now_ms)", "pass"
    ),
    # Joining
    "the id of MEMBER_ID_REQUIRED is dropped": Mutant("joining", "Generation(-1, member_id)", 'Generation(-1, "")'),
    "a join is tried again without a pause": Mutant(
        "joining", "member.join_again_ms = now_ms + member.settings.retry_backoff_ms", "member.join_again_ms = now_ms"
    ),
    "eager members keep what they own": Mutant("joining", "elif not member.cooperative:", "elif False:"),
    "what is lost is called revoked": Mutant(
        "joining", "result.changes.append(Lost(owned))", "result.changes.append(Revoked(owned))"
    ),
    "cooperative members do not come back after a revocation": Mutant(
        "joining", 'member.request_rejoin("need to revoke partitions and re-join")', "pass"
    ),
    "one cooperative assignor makes the member cooperative": Mutant(
        "state", "self.cooperative = not is_classic or all(", "self.cooperative = not is_classic or any("
    ),
    "what was consumed is not committed before a rejoin": Mutant(
        "joining", "if not commit_before_rejoin(member, now_ms, result):", "if False:"
    ),
    "the leader does not look at its topics": Mutant(
        "joining", "if assigned_of != member.metadata_snapshot:", "if False:"
    ),
    "a leader that is expelled while it waits for metadata stays out": Mutant(
        "joining",
        "        member.election = None\n        _end(member, ErrorCode.UNKNOWN_MEMBER_ID)\n",
        "        member.election = None\n",
    ),
    "a change of the subscription waits for the next rebalance": Mutant(
        "joining", "member.joined_subscription != member.subscription:", "False:"
    ),
    "a static leader that came back assigns": Mutant("leading", "if response.skip_assignment:", "if False:"),
    "static members leave": Mutant("leaving", "leave = member.settings.group_instance_id is None", "leave = True"),
    # Polling
    "what is paused is handed out": Mutant("fetching", "state is not None and state.paused", "False"),
    "what was fetched for another offset is handed out": Mutant(
        "fetching", "not state.is_fetchable or state.position != kept.next_offset", "not state.is_fetchable"
    ),
    "a poll hands out one record too many": Mutant(
        "fetching", "kept.at : kept.at + room]", "kept.at : kept.at + room + 1]"
    ),
    "the last record is read twice": Mutant(
        "fetching", "kept.next_offset = taken[-1].offset + 1", "kept.next_offset = taken[-1].offset"
    ),
    # The consumer protocol (KIP-848)
    "partitions are taken before others are given up": Mutant(
        "consumer.reconciling",
        "    if revoked:\n        result.changes.append(Revoked(revoked))\n    assign_partitions(member, wanted)\n"
        "    result.changes.append(Assigned(added))\n",
        "    assign_partitions(member, wanted)\n    result.changes.append(Assigned(added))\n    if revoked:\n"
        "        result.changes.append(Revoked(revoked))\n",
        CONSUMER,
    ),
    "nothing is committed before partitions are given up": Mutant(
        "consumer.reconciling", "if commit_before_rejoin(member, now_ms, result):", "if True:", CONSUMER
    ),
    "the coordinator is not told what was given up": Mutant(
        "consumer.heartbeats",
        "if joins or said.assignment != membership.current:",
        "if joins or said.assignment is None:",
        CONSUMER,
    ),
    "what was given up is told before it was": Mutant(
        "consumer.heartbeats",
        "for topic_id, each in membership.claimed.items()",
        "for topic_id, each in membership.target.partitions.items()",
        CONSUMER,
    ),
    "what was reconciled is told an interval later": Mutant(
        "consumer.reconciling",
        "    transition_to(member, ACKNOWLEDGING, result)\n    membership.due_ms = now_ms\n\n\ndef _named",
        "    transition_to(member, ACKNOWLEDGING, result)\n\n\ndef _named",
        CONSUMER,
    ),
    "a fenced member keeps its partitions": Mutant(
        "consumer.membership",
        "    membership.attempts = membership.retry_ms = 0\n    _lose(member, now_ms, result)\n",
        "    membership.attempts = membership.retry_ms = 0\n    join(member, now_ms, result)\n",
        CONSUMER,
    ),
    "a fenced member joins with its last epoch": Mutant(
        "consumer.membership",
        "    set_epoch(member, JOINING_EPOCH)\n    transition_to(member, JOINING",
        "    transition_to(member, JOINING",
        CONSUMER,
    ),
    "a failed heartbeat is not said again in full": Mutant(
        "consumer.heartbeats", "    membership.say_all_again()\n", "", CONSUMER
    ),
    "a response to an earlier life counts": Mutant(
        "consumer.heartbeats",
        "if send is not membership.in_flight or send.context != membership.lives:",
        "if False:",
        CONSUMER,
    ),
    "a static member leaves for good": Mutant(
        "consumer.membership",
        "LEAVING_FOR_NOW_EPOCH if is_static and not wanted else LEAVING_EPOCH",
        "LEAVING_EPOCH",
        CONSUMER,
    ),
    "who does not poll stays": Mutant(
        "consumer.heartbeats",
        "if not member.in_poll and member.heartbeat.poll.is_expired(now_ms):",
        "if False:",
        CONSUMER,
    ),
    "offsets are asked for without the epoch": Mutant(
        "positions", "if member.membership is not None and member.membership.epoch > 0:", "if False:", CONSUMER
    ),
}


class _Source(SourceFileLoader):
    """A module from another source than its file's."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return compile(mutated(self.mutant), self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.name = f"coordinatord.testing.member.{mutant.module}"
        self.mutant = mutant

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        loader: Loader = _Source(fullname, str(path_of(self.mutant)), self.mutant)
        return importlib.util.spec_from_loader(fullname, loader)


def path_of(mutant: Mutant) -> Path:
    return REPOSITORY / "coordinatord" / "testing" / "member" / f"{mutant.module.replace('.', '/')}.py"


def mutated(mutant: Mutant) -> str:
    """The source with the mistake in it."""
    source = path_of(mutant).read_text("utf-8")
    assert source.count(mutant.source) == 1, (
        f"{mutant.source!r} is {source.count(mutant.source)} times in {mutant.module}"
    )
    return source.replace(mutant.source, mutant.instead)


class _First:
    """A plugin that puts the finder before pytest's own, which loads the modules of installed plugins. Ours is one."""

    def __init__(self, finder: _Finder) -> None:
        self.finder = finder

    def pytest_configure(self) -> None:
        sys.meta_path.insert(0, self.finder)


def play(mutant: Mutant | None) -> int:
    """Run the tests in this process, up to the first that fails; pytest's status."""
    import pytest

    assert not any(name.startswith("coordinatord.testing.member") for name in sys.modules), "too late to load a mutant"
    plugins = [] if mutant is None else [_First(_Finder(mutant))]
    files = [str(HERE / f"test_{name}.py") for name in (TESTS if mutant is None else mutant.tests)]
    return pytest.main(
        [
            "-x",
            "-q",
            "--tb=no",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            f"--timeout={HANGS_S}",
            *files,
        ],
        plugins,
    )


def noticed_by(name: str) -> str:
    """The first test that fails with this mutant in place (without a name: with none); empty: none does."""
    command = [sys.executable, "-m", "tests.testing.member.mutants", "--here", *([name] if name else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=REPOSITORY, check=False)
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    assert (done.returncode == 0) is (found is None), done.stdout + done.stderr
    return found[1] if found else ""


@click.command()
@click.argument("name", required=False)
@click.option("--here", is_flag=True, help="Run the tests in this process.")
def main(name: str | None, here: bool) -> None:
    """Which tests notice which mistake?"""
    if name is not None and name not in MUTANTS:
        raise click.UsageError(f"there is no mutant {name!r}; there are: {'; '.join(MUTANTS)}")
    if here:
        sys.exit(play(MUTANTS[name] if name else None))
    survived = []
    for each in [name] if name else MUTANTS:
        found = noticed_by(each)
        click.echo(f"{each}: {found or 'NOBODY NOTICES'}")
        survived += [] if found else [each]
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
