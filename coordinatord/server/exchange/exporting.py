"""`coordinatord export`: copies coordinatord's data into a freshly formatted data directory of a Kafka broker.

A broker accepts a partition directory when the cluster's metadata has a topic of that name and id with this broker as
a replica; it renames all other directories to `…-stray` (LogManager.isStray). So the topics go into the file that
`kafka-storage.sh format` writes with the first records of the new cluster's metadata (kafka_metadata.BOOTSTRAPS).
It is replaced last; before that, only the partitions are written.

No `.kafka_cleanshutdown` is written: Kafka then reads and checks every batch, and rebuilds its state of producers and
open transactions from them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from coordinatord.broker.log import checkpoint, leader_epoch_cache
from coordinatord.broker.log.disk import replace_bytes
from coordinatord.broker.log.journal import journal_names
from coordinatord.broker.topics import catalogue_file, producer_ids
from coordinatord.server.exchange.files import (
    DISK,
    METADATA_DIRECTORY,
    SOURCE,
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
from coordinatord.server.exchange.kafka_metadata import (
    KafkaTopic,
    Replica,
    bootstrap_of,
    extend_bootstrap,
    read_bootstrap,
    topic_records,
)
from kafka_wire.records.cluster_metadata import (
    DIRECTORIES_LEVEL,
    ELR_VERSION,
    METADATA_VERSION,
    ProducerIdsRecord,
    encode_record,
)

CHECKPOINTS = (checkpoint.LOG_START, checkpoint.CLEANER)
"""The checkpoints to export. Not the recovery point: Kafka would not check the batches below it."""

Topic = tuple[KafkaTopic, dict[str, str]]
"""A topic with its settings."""


def export(source: Path, target: Path, controllers: Sequence[Path] = (), *, dry_run: bool = False) -> Report:
    """Copy the partitions of `source` to `target`, and add the topics to the metadata of `controllers` (default: of
    `target` itself). Raises ExchangeError or LogDamaged with the reason.
    """
    metadata_directories = list(controllers) or [target]
    if not source.is_dir():
        raise ExchangeError(f"{source}, where coordinatord's log would be, is no directory: name it with --data-dir.")
    with contextlib.ExitStack() as held:
        for directory in (source, target, *controllers):
            held.enter_context(unused(directory))
        _check_source(source)
        owner = properties(target)
        _check_target(target, owner, metadata_directories)
        topics, taken, rows, taken_producer_id = _look(source)
        features = _features(metadata_directories)
        directory_id = None
        if features.get(METADATA_VERSION, 0) >= DIRECTORIES_LEVEL:
            directory_id = checkpoint.uuid_bytes(owner["directory.id"])
        node_id = int(owner["node.id"])
        added = topic_records(topics, Replica(node_id, directory_id, elr=features.get(ELR_VERSION, 0) > 0))
        next_producer_id = max(producer_ids.read_next(SOURCE, str(source)), taken_producer_id + 1)
        if next_producer_id:
            # Producer ids that coordinatord has assigned must not be assigned again.
            added.append(encode_record(ProducerIdsRecord(node_id, next_producer_id=next_producer_id), 0))
        if not dry_run:
            _write(source, target, taken, metadata_directories, added)
    return Report(rows, [])


def _check_source(source: Path) -> None:
    if not (source / catalogue_file.FILE).exists():
        raise ExchangeError(
            f"{source} has no {catalogue_file.FILE}: no data directory of coordinatord: name that with --data-dir."
        )
    properties(source)
    names = [entry.name for entry in source.iterdir()]
    if checkpoint.CLEAN_SHUTDOWN not in names or journal_names(names):
        raise ExchangeError(f"{source} was not left in order: start coordinatord on it and stop it with SIGTERM once.")


def _check_target(target: Path, owner: dict[str, str], metadata_directories: Sequence[Path]) -> None:
    if partitions(target)[0]:
        raise ExchangeError(f"{target} has partitions already: remove it and format it anew with kafka-storage.sh.")
    for directory in metadata_directories:
        if properties(directory)["cluster.id"] != owner["cluster.id"]:
            raise ExchangeError(f"{directory} and {target} are of different clusters: format both with one cluster id.")
        log = directory / METADATA_DIRECTORY
        if log.is_dir() and any(log.glob("*.log")):
            raise ExchangeError(
                f"{directory} is of a cluster that has been started already, and a cluster learns of these topics only "
                "when it begins: remove it and format it anew with kafka-storage.sh."
            )


def _features(directories: Sequence[Path]) -> dict[str, int]:
    """Return the feature levels with which all of `directories` were formatted."""
    all_features = []
    for directory in directories:
        found = read_bootstrap(directory)
        if found.topics:
            raise ExchangeError(f"{bootstrap_of(directory)} has topics already: format {directory} anew.")
        all_features.append(found.features)
    if any(features != all_features[0] for features in all_features):
        raise ExchangeError("The controllers were formatted with different features: format them alike.")
    return all_features[0]


def _look(source: Path) -> tuple[list[Topic], list[Partition], list[Row], int]:
    """Return the topics, the partitions with a directory, the rows of the report, and the greatest producer id."""
    content = catalogue_file.read(SOURCE, f"{source}/{catalogue_file.FILE}")
    entries = content.topics
    found = {}
    for partition in partitions(source)[0]:
        entry = entries.get(partition.topic)
        topic_id = checkpoint.read_topic_id(SOURCE, str(partition.path))
        # Skip directories that belong to no topic, or to a topic whose deletion was in progress.
        if entry is not None and topic_id == entry.topic_id and topic_id not in content.deleting:
            found[partition.topic, partition.index] = partition
    topics, rows = [], []
    taken_producer_id = -1
    least_epoch = checkpoint.leader_epoch_of(SOURCE, str(source))
    for name, entry in sorted(entries.items()):
        topic = KafkaTopic(name, entry.topic_id, dict.fromkeys(range(entry.partitions), least_epoch))
        row = Row(name, entry.partitions)
        for index in range(entry.partitions):
            here = found.get((name, index))
            if here is None:
                continue  # never written to: Kafka creates the directory when it starts
            copied = examine(here, clean=True)
            row.records += copied.records
            row.bytes += copied.bytes
            taken_producer_id = max(taken_producer_id, copied.producer_id)
            topic.partitions[index] = max(least_epoch, leader_epoch_cache.read(SOURCE, str(here.path))[-1][0])
        topics.append((topic, dict(entry.configs)))
        rows.append(row)
    return topics, list(found.values()), rows, taken_producer_id


def _write(
    source: Path, target: Path, taken: Sequence[Partition], metadata_directories: Sequence[Path], added: list[bytes]
) -> None:
    made: list[Path] = []
    replaced: list[tuple[str, bytes | None]] = []
    try:
        for partition in taken:
            directory = target / partition.path.name
            directory.mkdir()
            made.append(directory)  # not before: an existing directory must not be removed after a failure
            copy(partition, directory, indexes=True)
        keys = {(partition.topic, partition.index) for partition in taken}
        for name in CHECKPOINTS:
            offsets = checkpoint.read_offsets(SOURCE, f"{source}/{name}")
            offsets = {key: offsets[key] for key in offsets.keys() & keys}
            path = target / name
            replaced.append((str(path), path.read_bytes() if path.exists() else None))
            checkpoint.write_offsets(DISK, str(path), offsets)
        DISK.sync_dir(str(target))
        for directory in metadata_directories:
            path = bootstrap_of(directory)
            extended, before = extend_bootstrap(path, added), path.read_bytes()
            replaced.append((str(path), before))
            replace_bytes(DISK, str(path), extended)
    except BaseException:
        for path_of, replaced_bytes in replaced:
            with contextlib.suppress(OSError):
                if replaced_bytes is None:
                    Path(path_of).unlink(missing_ok=True)
                else:  # so that no controller has topics that the broker lacks
                    replace_bytes(DISK, path_of, replaced_bytes)
            Path(f"{path_of}.tmp").unlink(missing_ok=True)
        for directory in made:
            shutil.rmtree(directory, ignore_errors=True)
        raise
