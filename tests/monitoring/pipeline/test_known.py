"""The generated history holds what its shape says, read record by record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from coordinatord.monitoring.offsets_log.source.end_offsets import from_directories
from kafka_wire.codecs import decode_message
from kafka_wire.records.batch import check_crc, iterate_batches, records
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from tests.monitoring.pipeline.known import BATCHES, GENERATIONS, PARTITIONS, Shape, write

SHAPE = Shape(groups=120, rounds=40, log_partitions=2)


def test_a_history_is_what_its_shape_says(tmp_path: Path) -> None:
    count = write(tmp_path, SHAPE)
    commits: Counter[tuple[str, str, int]] = Counter()
    last: dict[tuple[str, str, int], int | None] = {}
    generations: dict[str, list[int]] = {}
    sizes = set()
    total = 0
    for path in sorted(tmp_path.glob("__consumer_offsets-*/*.log")):
        data, next_offset = path.read_bytes(), 0
        for at, header in iterate_batches(data):
            check_crc(data, at, header)
            assert header.base_offset == next_offset
            next_offset = header.next_offset
            sizes.add(header.record_count)
            for record in records(data, at, header):
                assert record.key is not None
                if record.key[:2] == b"\0\2":
                    group = decode_message(GroupMetadataKey, 0, record.key[2:]).group
                    assert record.value is not None
                    value = decode_message(GroupMetadataValue, 3, record.value[2:])
                    generations.setdefault(group, []).append(value.generation)
                    continue
                key = decode_message(OffsetCommitKey, 0, record.key[2:])
                place = key.group, key.topic, key.partition
                if record.value is None:
                    last[place] = None
                    continue
                commit = decode_message(OffsetCommitValue, 3, record.value[2:])
                assert commit.commit_timestamp <= SHAPE.now_ms
                commits[place] += 1
                last[place] = commit.offset
        total += next_offset
    assert total == count
    assert {each * PARTITIONS for each in BATCHES} <= sizes, "offsets in batches have one byte, and two"
    assert generations == {SHAPE.name(group): list(range(1, GENERATIONS + 1)) for group in range(SHAPE.groups)}
    expected = {}
    for group in range(SHAPE.groups):
        for partition in range(PARTITIONS):
            offset = int(SHAPE.committed(group, SHAPE.rounds - 1))
            forgotten = SHAPE.forgets(group, partition)
            expected[SHAPE.name(group), SHAPE.topic(group), partition] = None if forgotten else offset
    assert last == expected
    assert commits == dict.fromkeys(expected, SHAPE.rounds)
    assert SHAPE.commits == commits.total()


def test_the_topics_end_where_the_shape_says(tmp_path: Path) -> None:
    write(tmp_path, SHAPE)
    endings = from_directories([str(tmp_path)], SHAPE.now_ms)
    assert len(endings) == SHAPE.topics * PARTITIONS
    assert {(each.log_start_offset, each.end_offset) for each in endings} == {(0, SHAPE.end_offset)}
    assert SHAPE.lag(0) == SHAPE.end_offset - SHAPE.committed(0, SHAPE.rounds - 1)
    assert SHAPE.lag(3) > SHAPE.lag(0), "it commits every second offset twice"
