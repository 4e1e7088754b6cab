"""Record golden frames: real clients against real Kafka, through a proxy. See tests/golden/README.md.

    python -m tests.clients.capture [kafka-python] [confluent-kafka] [aiokafka]

Writes tests/golden/frames/CLIENT-VERSION.jsonl: a line about the origin, then a few frames of each API, version and
direction that protocol/ declares. When all clients ran, also tests/golden/offsets_log/: the segment of
`__consumer_offsets` that Kafka wrote meanwhile, and what its own DumpLogSegments says of it.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from kafka_wire.headers import read_request_header
from kafka_wire.records import batch
from kafka_wire.registry import API_NAMES, codec, versions_of
from tests.clients import programs
from tests.clients.recording_proxy import Frame, RecordingProxy
from tests.daemon import free_port
from tests.reference.broker import HOST, KAFKA_VERSION, KafkaBroker, kafka_libs, running_broker

GOLDEN = Path(__file__).parents[1] / "golden"
KEEP_OF_EACH = 4
LARGEST_FRAME_BYTES = 4096

CLIENTS: dict[str, Callable[[str, str], None]] = {
    "kafka-python": programs.kafka_python,
    "confluent-kafka": programs.confluent_kafka,
    "aiokafka": programs.aiokafka,
}
# No retention surprises and no waiting: the frames are what counts.
OVERRIDES = {"group.initial.rebalance.delay.ms": "300", "offsets.topic.num.partitions": "1"}


def client_version(client: str) -> str:
    version = importlib.metadata.version(client)
    if client == "confluent-kafka":
        import confluent_kafka

        return f"{version} (librdkafka {confluent_kafka.libversion()[0]})"
    return version


def select(frames: Iterable[Frame]) -> list[Frame]:
    """A few of each kind, from the shortest to the longest, of those that are not huge."""
    kinds: dict[tuple[int, int, str, int], dict[bytes, Frame]] = defaultdict(dict)
    for frame in frames:
        declared = frame.api_key in API_NAMES and frame.api_version in versions_of(frame.api_key)
        if declared and len(frame.data) <= LARGEST_FRAME_BYTES:
            # Without the header, which differs from frame to frame by its correlation id alone.
            kind = (frame.api_key, frame.api_version, frame.direction, compression(frame))
            kinds[kind].setdefault(frame.data[8:], frame)
    chosen = []
    for _, distinct in sorted(kinds.items()):
        by_size = sorted(distinct.values(), key=lambda frame: len(frame.data))
        last = len(by_size) - 1
        places = {round(last * part / (KEEP_OF_EACH - 1)) for part in range(KEEP_OF_EACH)}
        chosen += [by_size[place] for place in sorted(places)]
    return chosen


def compression(frame: Frame) -> int:
    """The codec of what a Produce request carries, 0 for everything else: frames of each are kept."""
    if (API_NAMES[frame.api_key], frame.direction) != ("Produce", "request"):
        return 0
    produce = codec(frame.api_key, frame.api_version)
    _, start = read_request_header(frame.data, 0, len(frame.data), produce.flexible)
    request = produce.decode_request(frame.data, start, len(frame.data))
    return int(batch.read_header(request.topic_data[0].partition_data[0].records).attributes & batch.CODEC_MASK)


def write_frames(client: str, frames: list[Frame]) -> Path:
    version = client_version(client)
    path = GOLDEN / "frames" / f"{client}-{version.split()[0]}.jsonl"
    origin = {
        "client": client,
        "client_version": version,
        "broker": f"Apache Kafka {KAFKA_VERSION}",
        "recorded": datetime.date.today().isoformat(),
        "frames": "without the four bytes of their size",
    }
    lines = [json.dumps({"origin": origin})]
    for frame in frames:
        lines.append(
            json.dumps(
                {
                    "api": API_NAMES[frame.api_key],
                    "version": frame.api_version,
                    "direction": frame.direction,
                    "frame": frame.data.hex(),
                }
            )
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def keep_offsets_log(broker: KafkaBroker) -> None:
    """Copy the only partition's only segment, with Kafka's own reading of it."""
    folder = GOLDEN / "offsets_log"
    folder.mkdir(parents=True, exist_ok=True)
    (segment,) = (broker.data_dir / "__consumer_offsets-0").glob("*.log")
    (folder / segment.name).write_bytes(segment.read_bytes())
    dump = broker.dump_log(segment, "--offsets-decoder")
    (folder / "dump.txt").write_text(dump.replace(str(broker.data_dir), "DATA"))
    print(f"offsets log: {segment.stat().st_size} bytes")


def main(clients: list[str]) -> None:
    libs = kafka_libs()
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        with (
            running_broker(libs, Path(directory), OVERRIDES, advertised_port=port) as broker,
            RecordingProxy(HOST, port, broker.host, broker.port) as proxy,
        ):
            for client in clients:
                CLIENTS[client](f"{HOST}:{port}", client.replace("-", ""))
                recorded = proxy.take()
                chosen = select(recorded)
                path = write_frames(client, chosen)
                print(f"{path.name}: {len(chosen)} of {len(recorded)} frames, {path.stat().st_size} bytes")
            broker.stop()
            if clients == list(CLIENTS):
                keep_offsets_log(broker)


if __name__ == "__main__":
    main(sys.argv[1:] or list(CLIENTS))
