"""The metadata log: records of the cluster, in Kafka's formats, in `__cluster_metadata-0`.

An *image* is the state that records of one kind add up to, such as all ACLs. `append` writes records and replays them
into their images at once; the response to a change waits until the records are durable (the durability gate, as for
groups). A start replays the log into empty images before clients can connect.

Snapshots. When the log has grown, `_Snapshot` begins a new segment, writes all records of all images into it, in
slices, and then removes the older segments. Changes may come between two slices: each slice has the records as they are
then, and replaying a removal of an absent item does nothing, so a reader that reaches a segment's end has the state. A
snapshot that a crash cuts short removes nothing.

Several processes. The log's owner is the process that leads its partition: the controller in Metadata. Only the owner
appends. When records are durable, it publishes the log's end; the other workers read the new records from the files
(`reading.py`), or the whole log if the owner has removed records that they have not read. Nodes of other machines read
the records in the database that has the log (`server/postgresql/cluster_records.py`).

The log is not a topic: clients cannot see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.broker.log.config import LONG_MAX, LogConfig
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.loader import replay
from coordinatord.broker.log.names import METADATA_TOPIC, METADATA_TOPIC_ID
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.writer import LogWriter
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import KeyValues
from kafka_wire.schema import schema_of

if TYPE_CHECKING:  # a start without such records imports neither
    from coordinatord.broker.metadata.reading import Values

CONFIG: Final = LogConfig(segment_ms=LONG_MAX, retention_ms=-1)
"""Only snapshots begin a segment, and only they remove one."""

SNAPSHOT_BYTES: Final = 1 << 20
"""The log is rewritten when it has grown by this and by the size of the last snapshot: a start reads both in some tens
of milliseconds.
"""


class Image(Protocol):
    """State that records add up to."""

    def replay(self, record: Any) -> None:
        """Apply a record. A removal of an absent item does nothing."""

    def records(self) -> Iterator[Any]:
        """Yield records that make this image from an empty one. The image may change during the iteration."""

    def clear(self) -> None:
        """Drop the state, before the log is replayed from its beginning."""


class Published(Protocol):
    """State that the owner shares with the processes that follow it."""

    @property
    def metadata_end(self) -> int:
        """Return the offset after the last durable record, as far as this process has it."""

    def metadata_changed(self, end_offset: int) -> None:
        """Publish the end of the durable records. Only the owner calls this."""


Read = Callable[[int], "Iterable[Values]"]
"""Returns the batches from an offset on, or all of them if that offset is removed: reading.read_on."""


class MetadataLog:
    """The metadata log of a process. Owned by the event loop's thread. With `shared`, other processes read the records
    that this one writes, or this one reads theirs, with `read`; without `read`, from the files of the directory.
    """

    def __init__(
        self,
        data: DataDirectory,
        writer: LogWriter,
        call_soon: Callable[..., object],
        now_ms: Callable[[], int],
        nodes: Nodes,
        shared: Published | None = None,
        read: Read | None = None,
        *,
        snapshot_bytes: int = SNAPSHOT_BYTES,
    ) -> None:
        self.is_owner = nodes.owns(METADATA_TOPIC, 0)
        self._data = data
        self._writer = writer
        self._call_soon = call_soon
        self._now_ms = now_ms
        self._shared = shared
        self._read = read or self._read_files
        self._snapshot_bytes = snapshot_bytes
        self._makers: dict[int | None, Callable[[], Image]] = {}
        self._log: PartitionLog | None = None
        self._next_offset = 0  # next offset to replay into the images
        self._snapshot: _Snapshot | None = None
        #: bytes of the latest snapshot, and of the records written since
        self._snapshot_size = 0
        self._grown = 0

    def keep(self, image: Callable[[], Image], *record_types: int) -> None:
        """Replay records of these types (their numbers) into an image, which `image` makes at the first of them. To be
        called before `load`.
        """
        self._makers.update(dict.fromkeys(record_types, image))

    @property
    def images(self) -> list[Image]:
        """Return each image once."""
        return list(dict.fromkeys(make() for make in self._makers.values()))

    def load(self) -> None:
        """Read the log. Raises LogDamaged if it cannot be read, or has records of an unknown type."""
        if self.follows:
            self._read_on()
            return
        log = self._data.get(METADATA_TOPIC, 0)
        if log is None:
            log = self._data.create(METADATA_TOPIC, [0], METADATA_TOPIC_ID, CONFIG, lazy=True)[0]
        log.config = CONFIG
        self._log = log
        for batch in replay(log):
            for _offset, _timestamp, _key, value in batch.records:
                self._take(value, batch.damaged)
        self._grown = log.visible_bytes
        if self._shared is not None and log.end_offset:
            self._shared.metadata_changed(log.end_offset)

    def append(self, records: Iterable[Any]) -> int:
        """Apply records and write them, together or not at all. Returns the flush epoch that makes them durable. Raises
        LogFailed if the log has stopped. Only for the owner.
        """
        log = self._log
        assert log is not None, "the owner's log is loaded"
        taken = list(records)
        size = self._write(log, taken)
        for record in taken:
            self._makers[_type_of(record)]().replay(record)
        self._grown += size
        if self._snapshot is None and self._grown > max(self._snapshot_bytes, self._snapshot_size):
            self._snapshot = _Snapshot(self, log, self._call_soon)
        if self._shared is not None:
            self._writer.hold(self._writer.epoch, self._publish)
        return self._writer.epoch

    def refresh(self) -> None:
        """Apply what the owner has published, in another process than the owner; costs nothing if there is nothing new.
        Raises LogDamaged as `load` does.
        """
        if not self.is_owner and self._shared is not None and self._next_offset < self._shared.metadata_end:
            self._read_on()

    @property
    def follows(self) -> bool:
        """Return whether another process owns the log."""
        return not self.is_owner

    def _read_on(self) -> None:
        assert self._shared is not None, "who follows the owner shares something with it"
        end = self._shared.metadata_end
        for values in self._read(self._next_offset):
            self._take_over(values)
        if self._next_offset < end:
            why = f"offsets {self._next_offset} to {end - 1} were written and cannot be read"
            raise LogDamaged(f"{self._data.path}/{METADATA_TOPIC}-0", 0, why)

    def _read_files(self, next_offset: int) -> Iterable[Values]:
        from coordinatord.broker.metadata.reading import read_on

        return read_on(self._data.disk, f"{self._data.path}/{METADATA_TOPIC}-0", next_offset)

    # Within

    def _take_over(self, values: Values) -> None:
        if values.base_offset > self._next_offset:
            for image in self.images:
                image.clear()
        for value in values.values:
            self._take(value, values.damaged)
        self._next_offset = values.next_offset

    def _take(self, value: bytes | None, damaged: Callable[[DecodeError], LogDamaged]) -> None:
        from kafka_wire.records.cluster_metadata import decode_record

        try:
            record = decode_record(value or b"")
            make = self._makers.get(_type_of(record))
            if make is None:
                raise DecodeError(f"a {type(record).__name__}, which is not kept here")
        except DecodeError as error:
            raise damaged(error) from None
        make().replay(record)

    def _write(self, log: PartitionLog, records: Iterable[Any]) -> int:
        """Append records to the log. Returns their size in bytes."""
        from kafka_wire.records.cluster_metadata import encode_record

        values = [encode_record(record, 0) for record in records]
        self._writer.append_records(log, KeyValues([(None, value) for value in values]), self._now_ms())
        return sum(map(len, values))

    def _publish(self) -> None:
        assert self._shared is not None, "other processes read the log"
        assert self._log is not None, "the owner's log is loaded"
        self._shared.metadata_changed(self._log.high_watermark)

    def _snapshot_ended(self, log: PartitionLog, base_offset: int, size: int) -> None:
        """Remove the segments before a snapshot, which is durable now."""
        self._snapshot = None
        self._snapshot_size = size
        self._writer.delete_records(log, base_offset)
        if self._shared is not None:
            self._publish()


def _type_of(record: Any) -> int | None:
    return schema_of(type(record)).api_key


class _Snapshot:
    """Writes the images' records into a new segment, a slice in each turn of the event loop."""

    def __init__(self, metadata: MetadataLog, log: PartitionLog, call_soon: Callable[..., object]) -> None:
        self._metadata = metadata
        self._log = log
        self._call_soon = call_soon
        self._records = (record for image in metadata.images for record in image.records())
        self._size = 0
        metadata._writer.roll(log)
        self._base_offset = log.end_offset
        metadata._grown = 0
        call_soon(self._write_slice)

    def _write_slice(self) -> None:
        writer = self._metadata._writer
        if writer.failed:
            return
        slice_ = list(islice(self._records, SLICE_ITEMS))
        if slice_:
            self._size += self._metadata._write(self._log, slice_)
            self._call_soon(self._write_slice)
        else:
            writer.hold(writer.epoch, self._durable)

    def _durable(self) -> None:
        # With log.flush=interval or never this flush would not survive a power failure, but the removal of the older
        # segments would: then the whole log would be lost, not the last changes.
        ended = self._metadata._snapshot_ended
        self._metadata._writer.make_durable(self._log, lambda: ended(self._log, self._base_offset, self._size))
