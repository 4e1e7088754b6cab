"""Data directories made in a moment: a Kafka broker's when it is stopped, and one that is only formatted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from coordinatord.broker.log import checkpoint, leader_epoch_cache
from coordinatord.broker.log.disk import OsDisk
from coordinatord.cli import cli
from coordinatord.server.exchange.kafka_metadata import KafkaTopic, Replica, topic_records
from kafka_wire.records.batch import CONTROL, BatchBuilder, assign_offset, build_batch
from kafka_wire.records.cluster_metadata import ELR_VERSION, METADATA_VERSION, FeatureLevelRecord, encode_record

DISK = OsDisk()
CLUSTER_ID = "0123456789abcdefghijkQ"
DIRECTORY_ID = bytes(range(16))
ORDERS, OFFSETS = b"orders".ljust(16, b"."), b"offsets".ljust(16, b".")
METADATA_LEVEL = 25
TIME_MS = 1_700_000_000_000
FIRST_SEGMENT = f"{0:020d}.log"


def run(*arguments: object) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of a command."""
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def properties(directory: Path, node_id: int = 3, **more: str) -> Path:
    """meta.properties of a formatted directory."""
    directory.mkdir(parents=True, exist_ok=True)
    checkpoint.write_properties(
        DISK,
        str(directory / checkpoint.META_PROPERTIES),
        {
            "version": "1",
            "cluster.id": CLUSTER_ID,
            "node.id": str(node_id),
            "directory.id": checkpoint.uuid_text(DIRECTORY_ID),
            **{name.replace("_", "."): value for name, value in more.items()},
        },
    )
    return directory


def partition(directory: Path, name: str, topic_id: bytes, *batches: bytes | bytearray) -> Path:
    """A partition with one segment; the batches have their offsets already."""
    path = directory / name
    path.mkdir(parents=True)
    checkpoint.write_topic_id(DISK, str(path), topic_id)
    leader_epoch_cache.write(DISK, str(path))
    (path / FIRST_SEGMENT).write_bytes(b"".join(batches))
    return path


def batch(values: Sequence[str], base_offset: int = 0) -> bytearray:
    return build_batch([(None, value.encode()) for value in values], TIME_MS, base_offset)


def metadata_file(path: Path, *batches: Sequence[Any]) -> None:
    """Batches of metadata records (encoded, or as (record, version)), between the control records that Kafka puts
    around them in `bootstrap.checkpoint` and in snapshots.
    """
    path.parent.mkdir(exist_ok=True)
    out, offset = bytearray(), 0
    for values in ([b""], *batches, [b""]):
        builder = BatchBuilder()
        for value in values:
            builder.add(None, value if isinstance(value, bytes) else encode_record(*value), 0)
        is_control = list(values) == [b""]
        made = builder.finish(offset, attributes=CONTROL if is_control else 0)
        assign_offset(made, offset, 0)
        offset += len(values)
        out += made
    path.write_bytes(bytes(out))


def cluster_records(
    partitions: Mapping[str, int] | None = None, configs: Mapping[str, str] | None = None
) -> list[bytes]:
    """Records of the topics `orders` (with settings) and `__consumer_offsets`."""
    counts = {"orders": 2, "__consumer_offsets": 1} if partitions is None else partitions
    ids = {"orders": ORDERS, "__consumer_offsets": OFFSETS}
    topics = [
        (KafkaTopic(name, ids[name], dict.fromkeys(range(count), 4)), dict(configs or {}) if name == "orders" else {})
        for name, count in counts.items()
    ]
    return topic_records(topics, Replica(3, DIRECTORY_ID, elr=True))


def kafka(directory: Path, *, records: Sequence[Any] | None = None, clean: bool = True) -> Path:
    """A stopped broker's data directory."""
    properties(directory)
    metadata = directory / "__cluster_metadata-0"
    metadata.mkdir()
    metadata_file(metadata / FIRST_SEGMENT, cluster_records() if records is None else records)
    partition(directory, "orders-0", ORDERS, batch(["a", "b", "c"]), batch(["d"], 3))
    partition(directory, "orders-1", ORDERS)
    partition(directory, "__consumer_offsets-0", OFFSETS)
    if clean:
        (directory / checkpoint.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":7}')
    return directory


def formatted(directory: Path, level: int = METADATA_LEVEL, *, elr: int = 1, **more: str) -> Path:
    """A broker's directory as `kafka-storage.sh format` leaves it."""
    properties(directory, **more)
    features = [FeatureLevelRecord(METADATA_VERSION, level), FeatureLevelRecord(ELR_VERSION, elr)]
    metadata_file(directory / "bootstrap.checkpoint", [(feature, 0) for feature in features])
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, for seeing that nothing has changed."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
