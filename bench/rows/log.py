"""The offsets log: how fast it is loaded. Kafka's figure is what its own log says of itself."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import frames, groups
from bench.generator import WrongAnswer, exchange
from bench.registry import KAFKA, Arena, Column, Sample, at_least, ours, row
from bench.rows.steady import check_commit
from bench.servers import Ours, Server
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest

TOPIC, PARTITIONS = "bench-log", 100


def make_topic(server: Server) -> None:
    line = server.line()
    made = line.ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)], 30_000), groups.CREATE_TOPICS_VERSION)
    groups.require(made.topics[0].error_code, "CreateTopics")
    line.close()


def commit(group: str, generation: int, member_id: str, offset: int) -> Any:
    request = frames.commit(group, generation, member_id, offset, PARTITIONS)
    request.topics[0].name = TOPIC
    return request


# A log of a million offsets, most of them older ones of the same keys

GROUPS, TURNS = 200, 50
RECORDS = GROUPS * TURNS * PARTITIONS
LAST_OFFSET = TURNS
WAIT_S, LOOK_S = 60.0, 0.05


def names() -> list[str]:
    return [f"log-{number:06}" for number in range(GROUPS)]


def fill(server: Server) -> None:
    """Everybody commits, fifty times: the last offset is 50."""
    make_topic(server)
    lines = groups.lines(server)
    groups.wait_until_loaded(lines, names())
    for turn in range(1, TURNS + 1):
        hands = groups.dealt([commit(name, -1, "", turn) for name in names()], len(lines))
        answers = exchange(lines, [[frames.frame(each) for each in hand] for hand in hands], groups.IN_FLIGHT)
        if turn in (1, TURNS):
            for hand, mine in zip(hands, answers, strict=True):
                for request, answer in zip(hand, mine, strict=True):
                    check_commit(request, frames.response(request, answer))
    for line in lines:
        line.close()


def check_offsets(server: Server) -> None:
    """What was committed last is what is there, for every tenth group."""
    line = server.line()
    groups.wait_until_loaded([line], names())
    for name in names()[::10]:
        request = frames.offset_fetch(name, PARTITIONS)
        request.groups[0].topics[0].name = TOPIC
        (group,) = line.ask(request).groups
        groups.require(group.error_code, "OffsetFetch")
        found = {partition.committed_offset for partition in group.topics[0].partitions}
        if found != {LAST_OFFSET}:
            raise WrongAnswer(f"{name} has committed {found} instead of {LAST_OFFSET}")
    line.close()


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    """The first thing that is found."""
    until_s = time.monotonic() + WAIT_S
    while (found := look()) is None:
        if time.monotonic() > until_s:
            raise WrongAnswer(f"{what} did not happen in {WAIT_S:g} s")
        time.sleep(LOOK_S)
    return found


# "Finished loading of metadata from __consumer_offsets-12 with epoch 0 in 34ms where 1ms was spent in the scheduler.
#  Loaded 20000 records which total to 1900000 bytes."
KAFKA_LOADED = re.compile(
    r"^(\S+) INFO .*Finished loading of metadata from __consumer_offsets-\d+ with epoch \d+ in (\d+)ms where \d+ms "
    r"was spent in the scheduler. Loaded (\d+) records",
    re.MULTILINE,
)


def kafkas_load(text: str) -> tuple[int, float] | None:
    """(records, seconds from the first partition's begin to the last one's end)."""
    records, begins, ends = 0, [], []
    for at, took_ms, count in KAFKA_LOADED.findall(text):
        end = datetime.datetime.strptime(at, "%H:%M:%S.%f")
        ends.append(end)
        begins.append(end - datetime.timedelta(milliseconds=int(took_ms)))
        records += int(count)
    return (records, (max(ends) - min(begins)).total_seconds()) if records >= RECORDS else None


def our_load(server: Ours, since: int) -> tuple[int, float] | None:
    loads = server.daemon.events("groups loaded")[since:]
    return (int(str(loads[0]["records"])), float(str(loads[0]["seconds"]))) if loads else None


@row(
    "load",
    "a million offset records loaded at start",
    "records/s",
    columns=[ours(log_flush="never", log_cleaner_enable="false"), KAFKA],
    targets=[at_least(400_000)],
    rounds=3,
    quick=False,
    more_is_better=True,
)
def load(arena: Arena, column: Column, seconds: float) -> Sample:
    """Each round stops the server and starts it again. Both load what they would after any stop."""
    if column.kind == "kafka":
        column = replace(column, settings=(("log.cleaner.enable", "false"),))
    server = arena.server(column)
    if "filled" not in server.fixtures:
        fill(server)
        server.fixtures["filled"] = True
    said = len(server.logged())
    if isinstance(server, Ours):
        loads = len(server.daemon.events("groups loaded"))
        server.again({})
        records, took_s = wait_for("loading", lambda: our_load(server, loads))
    else:
        server.again({})
        records, took_s = wait_for("loading", lambda: kafkas_load(server.logged()[said:]))
    if records < RECORDS:
        raise WrongAnswer(f"{records} of {RECORDS} records were loaded")
    check_offsets(server)
    return Sample(records / took_s, also={"s": took_s, "s from process start to first answer": server.start_s})
