"""What happens in the demo, step by step. Every wait has an end, and every claim that is printed is checked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec

from tests.clients.members import ConsumerProcess
from tests.daemon import Daemon, logged_at_s
from tests.demo.narrator import FOLLOW_INTERVAL_S, Follower, Narrator
from tests.support.waiting import PATIENCE_S

TOPIC, PARTITIONS, RECORDS = "orders", 6, 10_000
GROUP = "billing"
NAMES = ("A", "B", "C")
SESSION_TIMEOUT_MS = 6_000  # the shortest that Kafka's defaults allow
HEARTBEAT_INTERVAL_MS = 500
RECONNECT_BACKOFF_MAX_MS = 500  # a client's default of 30 s would make the crash look longer than it is
# Each consumer pretends to work: so many records at a time, and a pause. All are still busy when things happen to them.
RECORDS_PER_POLL, PAUSE_MS = 60, 220
READ_BEFORE_FIRST_KILL = 2_500
READ_AFTER_REBALANCE = 800
INTERVAL_S = 0.02


class DemoFailed(Exception):
    """Something that should be so is not."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise DemoFailed(what)


class Story:
    """The demo's cast, and its acts in order."""

    def __init__(self, narrator: Narrator, directory: Path) -> None:
        self.say = narrator
        self.directory = directory
        self.daemon = Daemon(directory)
        self.follower: Follower | None = None
        self.consumers: dict[str, ConsumerProcess] = {}
        self.read_twice = 0

    def run(self) -> None:
        self.start_daemon()
        self.produce()
        self.start_consumers()
        self.kill_a_consumer()
        self.kill_the_daemon()
        self.read_to_the_end()

    def clean_up(self) -> None:
        """End every process that was started, by its id."""
        for consumer in self.consumers.values():
            if consumer.process.poll() is None:
                consumer.kill()
        if self.daemon.process is not None:
            self.daemon.kill()
        if self.follower is not None:
            self.follower.stop()

    # The acts

    def start_daemon(self) -> None:
        seconds = self.daemon.start()
        self.say.step(
            f"The daemon listens on {self.daemon.bootstrap} (pid {self.daemon.pid}), {seconds:.1f} s after its start."
        )
        self.say.detail(f"Its data is in {self.daemon.data_dir}.")

    def produce(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.daemon.bootstrap)
        admin.create_topics({TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1}})
        admin.close()
        self.say.step(f'Topic "{TOPIC}" has been created, with {PARTITIONS} partitions.')
        producer = KafkaProducer(bootstrap_servers=self.daemon.bootstrap, linger_ms=5)
        sent = [producer.send(TOPIC, value_of(number), partition=number % PARTITIONS) for number in range(RECORDS)]
        producer.flush(timeout=PATIENCE_S)
        for future in sent:
            future.get(timeout=PATIENCE_S)
        producer.close()
        self.say.step(f"{RECORDS:,} records have been produced, and every one has been acknowledged.")

    def start_consumers(self) -> None:
        self.follower = Follower(self.say, self.daemon.log_file, GROUP)
        for name in NAMES:
            self.consumers[name] = ConsumerProcess(
                self.daemon.bootstrap,
                GROUP,
                TOPIC,
                pause_ms=PAUSE_MS,
                client_id=name,
                max_poll_records=RECORDS_PER_POLL,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
            )
        pids = ", ".join(f"{name} is pid {each.process.pid}" for name, each in self.consumers.items())
        self.say.step(f"Three kafka-python consumers start as processes: {pids}.")
        self.say.detail("A new group waits 3 s for more members, and once more if some come (as Kafka does).")
        self.until_assigned(NAMES, "all partitions with the three consumers")
        self.say.step(f"{self.who_has_what(NAMES)}.")
        self.until(lambda: len(self.seen()) >= READ_BEFORE_FIRST_KILL, "the first records")
        self.say.step(f"{len(self.seen()):,} records have been read; each consumer commits after every poll.")

    def kill_a_consumer(self) -> None:
        victim, left = NAMES[1], (NAMES[0], NAMES[2])
        read = sum(len(event["values"]) for event in self.consumers[victim].of_kind("records"))
        self.say.blank()
        self.say.step(f"SIGKILL for consumer {victim}. It had read {read:,} records.")
        self.say.detail(
            f"Nobody tells the coordinator: it finds out when the session of {SESSION_TIMEOUT_MS / 1000:g} s ends."
        )
        killed_s = self.consumers[victim].kill()
        self.until_assigned(left, "all partitions with the two that are left")
        self.say.step(f"{self.who_has_what(left)}: {time.time() - killed_s:.1f} s after the SIGKILL.")
        last = self.consumers[victim].of_kind("committed")[-1]["offsets"]
        taken = {
            number: at
            for name in left
            for number, at in self.consumers[name].of_kind("assigned")[-1]["positions"].items()
            if number in last
        }
        require(set(taken) == set(last), f"nobody has the partitions of {victim}")
        for number, offset in last.items():
            require(taken[number] >= offset, f"partition {number} goes on at {taken[number]}, not at {offset}")
        where = " and ".join(f"{at:,} of partition {number}" for number, at in sorted(taken.items()))
        self.say.detail(f"They go on where {victim} had committed: at offset {where}.")
        target = len(self.seen()) + READ_AFTER_REBALANCE
        self.until(lambda: len(self.seen()) >= target, "more records after the rebalance")

    def kill_the_daemon(self) -> None:
        self.say.blank()
        self.say.step(f"SIGKILL for the daemon, while the consumers read. {len(self.seen()):,} records have been read.")
        self.daemon.kill()
        acknowledged = self.acknowledged()
        read = len(self.seen())
        crashed_s = time.time()
        seconds = self.daemon.start()
        self.say.step(f"It runs again: same port, same data, first answer {seconds:.1f} s after its start.")
        committed = self.committed()
        rows: list[list[object]] = [["partition", *range(PARTITIONS)]]
        rows.append(["committed, and acknowledged, before the crash", *(acknowledged[n] for n in range(PARTITIONS))])
        rows.append(["committed, says the coordinator now", *(committed[n] for n in range(PARTITIONS))])
        self.say.table(rows)
        for number, offset in acknowledged.items():
            require(committed[number] >= offset, f"the commit of {offset} for partition {number} is lost")
        self.until(
            lambda: all(self.committed_since(crashed_s, name) for name in (NAMES[0], NAMES[2])),
            "commits of both consumers after the crash",
        )
        self.say.step(f"Both consumers go on; {read:,} records had been read before.")
        events = self.daemon.events("group transition", group=GROUP)
        if any(logged_at_s(event) > crashed_s for event in events):
            self.say.detail("The group went through a rebalance: the crash had come in the middle of something.")
        else:
            self.say.detail("The group is as it was: same members, same generation, no rebalance.")

    def read_to_the_end(self) -> None:
        everything = {value_of(number).decode() for number in range(RECORDS)}
        self.until(lambda: len(self.seen()) == RECORDS, "the rest of the records")
        self.say.blank()
        require(self.seen() == everything, "there are records that nobody has produced")
        self.say.step(f"All {RECORDS:,} records have been read.")
        for name in (NAMES[0], NAMES[2]):
            require(self.consumers[name].terminate() == 0, f"consumer {name} did not end in order")
        self.say.step("The consumers have left the group.")
        committed, ends = self.committed(), self.end_offsets()
        rows: list[list[object]] = [["partition", *range(PARTITIONS)]]
        rows.append(["records", *(ends[n] for n in range(PARTITIONS))])
        rows.append(["committed", *(committed[n] for n in range(PARTITIONS))])
        self.say.table(rows)
        require(committed == ends, "not everything that was read has been committed")
        require(sum(ends.values()) == RECORDS, f"the topic has {sum(ends.values()):,} records, not {RECORDS:,}")
        self.read_twice = sum(times - 1 for times in self.times_read().values())
        code = self.daemon.stop()
        require(code == 0, f"the daemon ended with {code} after SIGTERM")
        self.say.step("SIGTERM for the daemon: it has flushed its log and ended with exit code 0.")

    # What the cast knows

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            require(time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s for {what}")
            time.sleep(INTERVAL_S)

    def until_assigned(self, names: tuple[str, ...], what: str) -> None:
        self.until(lambda: self.all_assigned(names), what)
        time.sleep(3 * FOLLOW_INTERVAL_S)  # the daemon's own word on it goes first

    def all_assigned(self, names: tuple[str, ...]) -> bool:
        owned = [number for name in names for number in self.consumers[name].assignment]
        return sorted(owned) == list(range(PARTITIONS)) and all(self.consumers[name].assignment for name in names)

    def who_has_what(self, names: tuple[str, ...]) -> str:
        generation = self.consumers[names[0]].of_kind("assigned")[-1]["generation"]
        has = [f"{in_words(self.consumers[name].assignment)} for {name}" for name in names]
        return f"Generation {generation}: partitions {'; '.join(has)}"

    def times_read(self) -> Counter[str]:
        return Counter(
            value
            for consumer in self.consumers.values()
            for event in consumer.of_kind("records")
            for value in event["values"]
        )

    def seen(self) -> set[str]:
        return set(self.times_read())

    def acknowledged(self) -> dict[int, int]:
        """The highest offset per partition that some consumer has had an acknowledgement for."""
        last = dict.fromkeys(range(PARTITIONS), 0)
        for consumer in self.consumers.values():
            for event in consumer.of_kind("committed"):
                for number, offset in event["offsets"].items():
                    last[int(number)] = max(last[int(number)], offset)
        return last

    def committed_since(self, at_s: float, name: str) -> bool:
        return any(event["at_s"] > at_s for event in self.consumers[name].of_kind("committed"))

    def committed(self) -> dict[int, int]:
        """What the coordinator says."""
        admin = KafkaAdminClient(bootstrap_servers=self.daemon.bootstrap)
        offsets = admin.list_group_offsets([GROUP])[GROUP]
        admin.close()
        return {number: offsets[TopicPartition(TOPIC, number)].offset for number in range(PARTITIONS)}

    def end_offsets(self) -> dict[int, int]:
        admin = KafkaAdminClient(bootstrap_servers=self.daemon.bootstrap)
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        admin.close()
        return {tp.partition: end.offset for tp, end in ends.items()}


def value_of(number: int) -> bytes:
    return b"order-%05d" % number


def in_words(numbers: list[int]) -> str:
    """`0, 1 and 2`"""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last
