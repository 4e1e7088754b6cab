"""`coordinatord import`: creates a data directory of coordinatord from those of a stopped Kafka broker.

Partitions are copied unchanged, with their indexes if the broker was stopped cleanly. Names, ids, partitions and
settings of topics come from the broker's copy of the cluster's metadata; without one (a broker before KRaft) names, ids
and partitions come from the directories. Everything is written beside the target and renamed at the end. A target that
is a mount point (a container's volume) cannot be replaced: the data is written into a directory inside it, whose
entries are moved up at the end; while that directory exists, no daemon starts on the target.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from coordinatord.base.config import Settings
from coordinatord.broker.log import checkpoint, leader_epoch_cache, worker_checkpoints
from coordinatord.broker.log.data_dir import random_id
from coordinatord.broker.log.disk import replace_text
from coordinatord.broker.topics import catalogue, catalogue_file, producer_ids
from coordinatord.broker.topics.config_table import InvalidConfig
from coordinatord.broker.topics.configs import Configs
from coordinatord.broker.topics.names import why_invalid
from coordinatord.server.exchange.files import (
    DISK,
    METADATA_DIRECTORY,
    SOURCE,
    Copied,
    ExchangeError,
    Partition,
    Report,
    Row,
    copy,
    examine,
    partitions,
    properties,
    unused,
)
from coordinatord.server.exchange.kafka_metadata import LEFT_BEHIND, KafkaMetadata, KafkaTopic, read_log

TIERED = "remote.storage.enable"

MAX_PRODUCER_ID = 1 << 62
"""Controllers count producer ids from 0, so none comes near this; ids beyond an int64 could not be assigned."""

SHOWN = 5
"""Maximum number of names listed in a sentence; the others are counted."""


def import_(sources: Sequence[Path], target: Path, settings: Settings, *, dry_run: bool = False) -> Report:
    """Create `target` from `sources`, the directories of one broker. Raises ExchangeError or LogDamaged with the
    reason.
    """
    with contextlib.ExitStack() as held:
        for source in sources:
            held.enter_context(unused(source))
        broker = _Broker(sources)
        _check_target(target, sources)
        metadata = broker.metadata
        topics = metadata.topics if metadata is not None else _topics_of(broker.partitions)
        _check_topics(topics)
        taken = _match(broker, topics)
        rows: dict[str, Row] = {}
        taken_producer_id = -1
        torn_bytes = 0
        end_offsets = []
        for partition in taken:
            found = examine(partition, clean=broker.clean)
            end_offsets.append(found.end_offset)
            _count(rows, partition, found)
            taken_producer_id = max(taken_producer_id, found.producer_id)
            torn_bytes += found.torn_bytes
        entries, remarks = _entries(topics, metadata, settings)
        for entry in entries:
            rows.setdefault(entry, Row(entry)).partitions = entries[entry].partitions
        remarks = [*broker.remarks, *remarks]
        if torn_bytes:
            remarks.append(
                f"The broker was not stopped in order, and {torn_bytes} bytes at the ends of logs are not whole: "
                "the next start cuts them off and says so, as Kafka's would."
            )
        next_producer_id = max(taken_producer_id + 1, metadata.next_producer_id if metadata is not None else 0)
        if next_producer_id > MAX_PRODUCER_ID:
            raise ExchangeError(
                f"The log has a producer id of {next_producer_id - 1}: no broker gave it to a producer."
            )
        if not dry_run:
            with _in_place_of(target) as directory:
                known = {topic.name: topic.partitions for topic in topics.values()}
                for partition, end_offset in zip(taken, end_offsets, strict=True):
                    (directory / partition.path.name).mkdir()
                    copy(partition, directory / partition.path.name, indexes=broker.clean)
                    _lead(directory / partition.path.name, known[partition.topic][partition.index], end_offset)
                _write_own_files(directory, broker, settings, entries, next_producer_id, taken)
        return Report([rows[name] for name in sorted(rows)], remarks)


class _Broker:
    """The contents of a broker's data directories."""

    def __init__(self, sources: Sequence[Path]) -> None:
        self.sources = sources
        self.partitions: list[Partition] = []
        self.metadata: KafkaMetadata | None = None
        self.remarks: list[str] = []
        found = [properties(source, versions=("0", "1")) for source in sources]
        for source, each in zip(sources, found, strict=True):
            if (source / catalogue_file.FILE).exists():
                raise ExchangeError(f"{source} is coordinatord's own already: start it with --data-dir {source}.")
            if (each["cluster.id"], each["node.id"]) != (found[0]["cluster.id"], found[0]["node.id"]):
                raise ExchangeError(
                    f"{source} belongs to node {each['node.id']} of cluster {each['cluster.id']}, {sources[0]} to node "
                    f"{found[0]['node.id']} of {found[0]['cluster.id']}: name the directories of one broker."
                )
        self.cluster_id = found[0]["cluster.id"]
        self.clean = all((source / checkpoint.CLEAN_SHUTDOWN).exists() for source in sources)
        for source in sources:
            self._look(source)

    def _look(self, source: Path) -> None:
        here, aside = partitions(source)
        known = {(each.topic, each.index): each for each in self.partitions}
        for partition in here:
            if (partition.topic, partition.index) in known:
                other = known[partition.topic, partition.index].path
                raise ExchangeError(f"{partition.path} and {other} are the same partition: Kafka starts with neither.")
        self.partitions += here
        if aside:
            self.remarks.append(f"Left out, because Kafka has set them aside: {_some(aside)}.")
        directory = source / METADATA_DIRECTORY
        if directory.is_dir():
            clean = (source / checkpoint.CLEAN_SHUTDOWN).exists()
            self.metadata = read_log(directory, clean=clean)


def _topics_of(found: Sequence[Partition]) -> dict[bytes, KafkaTopic]:
    """Return the topics according to the partition directories."""
    topics: dict[str, KafkaTopic] = {}
    for partition in found:
        topic_id = checkpoint.read_topic_id(SOURCE, str(partition.path)) or bytes(16)
        topic = topics.setdefault(partition.topic, KafkaTopic(partition.topic, topic_id))
        topic.partitions[partition.index] = 0
    by_id: dict[bytes, KafkaTopic] = {}
    for topic in topics.values():
        other = by_id.setdefault(topic.topic_id if any(topic.topic_id) else topic.name.encode(), topic)
        if other is not topic:
            raise ExchangeError(
                f"The directories of the topics {other.name} and {topic.name} have the same topic id "
                f"({checkpoint.PARTITION_METADATA}): leave out the copied ones."
            )
    return by_id


def _check_topics(topics: Mapping[bytes, KafkaTopic]) -> None:
    """Raise ExchangeError for topics that no controller creates."""
    names: set[str] = set()
    for topic in topics.values():
        reason = why_invalid(topic.name)
        if reason is None and topic.name in names:
            reason = f"there are two topics {topic.name}"
        if reason is None and min(topic.partitions, default=-1) < 0:
            reason = f"topic {topic.name} has no partition, or one with a negative number"
        if reason is not None:
            raise ExchangeError(f"The cluster's metadata are not those of a Kafka cluster: {reason}.")
        names.add(topic.name)


def _match(broker: _Broker, topics: Mapping[bytes, KafkaTopic]) -> list[Partition]:
    """Return the partitions to import. Every partition of the cluster's topics must be present."""
    by_name = {topic.name: topic for topic in topics.values()}
    taken, strays = [], []
    for partition in broker.partitions:
        topic = by_name.get(partition.topic)
        topic_id = checkpoint.read_topic_id(SOURCE, str(partition.path))
        if topic is None or partition.index not in topic.partitions or topic_id not in (None, topic.topic_id):
            strays.append(partition.path.name)
        else:
            taken.append(partition)
    have = {(each.topic, each.index) for each in taken}
    counts = {topic.name: max(topic.partitions) + 1 for topic in by_name.values()}
    missing = sum(counts.values()) - len(have)
    if missing:
        absent = (
            f"{name}-{index}"
            for name, count in sorted(counts.items())
            for index in range(count)
            if (name, index) not in have
        )
        shown = ", ".join(islice(absent, SHOWN)) + (f" and {missing - SHOWN} more" if missing > SHOWN else "")
        raise ExchangeError(
            f"{missing} partitions of the cluster are not in {', '.join(map(str, broker.sources))}: "
            f"{shown}. Name all of the broker's log.dirs; what other brokers have must be moved to "
            "this one first (kafka-reassign-partitions.sh)."
        )
    if strays:
        broker.remarks.append(f"Left out, because the cluster has no such topic any more: {_some(strays)}.")
    return taken


def _entries(
    topics: Mapping[bytes, KafkaTopic], metadata: KafkaMetadata | None, settings: Settings
) -> tuple[dict[str, catalogue_file.Entry], list[str]]:
    """Return the catalogue entries of these topics, and notes for the report."""
    entries, remarks = {}, []
    for topic in sorted(topics.values(), key=lambda each: each.name):
        wanted = metadata.configs.get(topic.name, {}) if metadata is not None else {}
        configs, refused = _understood(wanted, settings)
        for name in sorted(set(refused) - {TIERED}):
            remarks.append(
                f"Setting {name}={wanted[name]} of topic {topic.name} is left out: there is nothing like it."
            )
        if wanted.get(TIERED) == "true":
            remarks.append(f"Topic {topic.name} has tiered storage: records in the remote tier are not imported.")
        if metadata is None:
            configs = catalogue.internal_configs(settings, topic.name)
        entries[topic.name] = catalogue_file.Entry(topic.topic_id, max(topic.partitions) + 1, configs)
    if metadata is None:
        remarks.append(
            f"There is no {METADATA_DIRECTORY} in it: topics have default settings, and as many partitions as there "
            "are directories. If the broker's metadata.log.dir is another directory, name that, too."
        )
        return entries, remarks
    left = [what for record_type, what in sorted(LEFT_BEHIND.items()) if metadata.skipped[record_type]]
    if left:
        remarks.append(f"Left behind, because there is nothing like it here: the cluster's {', '.join(left)}.")
    return entries, remarks


def _understood(wanted: Mapping[str, str], settings: Settings) -> tuple[dict[str, str], list[str]]:
    """Return the supported settings, and the names of the others."""
    configs: dict[str, str] = {}
    refused = []
    for name, value in sorted(wanted.items()):
        try:
            Configs(settings, {**configs, name: value})
        except InvalidConfig:
            refused.append(name)
        else:
            configs[name] = value
    return configs, refused


def _lead(partition: Path, leader_epoch: int, end_offset: int) -> None:
    """Begin the next leader epoch: a client of the former leader must see that the leader has changed (KIP-320)."""
    before = leader_epoch_cache.read(DISK, str(partition))
    ours = max(leader_epoch, before[-1][0]) + 1, end_offset
    if ours[0] > leader_epoch_cache.MAX_EPOCH:
        raise ExchangeError(f"{partition.name} has the last leader epoch that there is: nothing can lead it any more.")
    leader_epoch_cache.write(DISK, str(partition), leader_epoch_cache.assigned(before, *ours))


def _write_own_files(
    directory: Path,
    broker: _Broker,
    settings: Settings,
    entries: Mapping[str, catalogue_file.Entry],
    next_producer_id: int,
    taken: Sequence[Partition],
) -> None:
    path = str(directory)
    keys = {(partition.topic, partition.index) for partition in taken}
    catalogue_file.write(DISK, f"{path}/{catalogue_file.FILE}", catalogue_file.Content(dict(entries), {}, 0))
    producer_ids.write_next(DISK, path, next_producer_id)
    for name in worker_checkpoints.CHECKPOINTS:
        offsets: dict[tuple[str, int], int] = {}
        for source in broker.sources:
            offsets |= checkpoint.read_offsets(SOURCE, f"{source}/{name}")
        offsets = {key: offsets[key] for key in offsets.keys() & keys}
        if name == checkpoint.RECOVERY_POINT:
            offsets = dict.fromkeys(keys, 0) | offsets  # an entry marks a partition as coordinatord's own
        checkpoint.write_offsets(DISK, f"{path}/{name}", offsets)
    checkpoint.write_properties(
        DISK,
        f"{path}/{checkpoint.META_PROPERTIES}",
        {
            "version": str(checkpoint.META_VERSION),
            "cluster.id": broker.cluster_id,
            "node.id": str(settings.node_id),
            "directory.id": random_id(),
        },
    )
    if broker.clean:
        replace_text(DISK, f"{path}/{checkpoint.CLEAN_SHUTDOWN}", checkpoint.CLEAN_SHUTDOWN_TEXT)


def _check_target(target: Path, sources: Sequence[Path]) -> None:
    if (target / checkpoint.IMPORTING).is_dir():
        raise ExchangeError(f"{target} has an unfinished import: remove its content and try again.")
    if target.exists() and (not target.is_dir() or _entries_of(target)):
        raise ExchangeError(f"{target} exists and is not empty: name a new directory (--data-dir).")
    inside = [source for source in sources if source.resolve() in target.resolve().parents]
    if inside:
        raise ExchangeError(f"{target} is inside {inside[0]}, which is only read: name another directory (--data-dir).")
    aside = _aside(target.resolve())
    if aside.exists():
        raise ExchangeError(f"{aside} was left by an unfinished import: remove it and try again.")


def _entries_of(target: Path) -> list[Path]:
    """Return a directory's entries, except those that a file system creates in its root."""
    return sorted(entry for entry in target.iterdir() if entry.name != "lost+found")


def _aside(target: Path) -> Path:
    return target / checkpoint.IMPORTING if target.is_mount() else target.with_name(target.name + checkpoint.IMPORTING)


@contextlib.contextmanager
def _in_place_of(target: Path) -> Iterator[Path]:
    """Yield a directory to fill, which becomes `target` at the end and is removed after a failure."""
    target = target.resolve()
    aside = _aside(target)
    aside.mkdir(parents=True)
    moved: list[Path] = []
    try:
        yield aside
        DISK.sync_dir(str(aside))
        if aside.parent == target:
            for entry in sorted(aside.iterdir()):
                goal = target / entry.name
                if os.path.lexists(goal):  # created since the check of the target: it must not be replaced or removed
                    raise ExchangeError(f"{goal} is there already: name an empty directory (--data-dir).")
                os.rename(entry, goal)
                moved.append(goal)
            DISK.sync_dir(str(target))
            aside.rmdir()
            DISK.sync_dir(str(target))
        else:
            os.replace(aside, target)
    except BaseException:
        for entry in moved:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        raise
    DISK.sync_dir(str(target.parent))


def _count(rows: dict[str, Row], partition: Partition, found: Copied) -> None:
    row = rows.setdefault(partition.topic, Row(partition.topic))
    row.records += found.records
    row.bytes += found.bytes


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
