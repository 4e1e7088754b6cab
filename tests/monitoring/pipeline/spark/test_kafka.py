"""The source on a broker of Kafka's, through Spark: every record once, whoever is killed; credentials; what goes wrong
in a sentence; the log cleaner at work on segments that are being read; and a group set back to where it was."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from pyspark.errors import PySparkException

from coordinatord.cli import cli
from coordinatord.monitoring.offsets_log.source.ranges import SegmentReplaced, plan
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, find_logs
from coordinatord.monitoring.pipeline.run import ingest
from coordinatord.monitoring.pipeline.run.ingest import Intake, Job
from coordinatord.monitoring.pipeline.source.frames import Source
from tests.clients.recording_proxy import RecordingProxy
from tests.monitoring.offsets_log.source.test_kafka_segments import rows_in
from tests.monitoring.pipeline.directories import offsets_of
from tests.monitoring.pipeline.spark.kafka_broker import (
    PARTITIONS,
    PLAIN_WORD,
    READER,
    STRANGER,
    STRANGER_WORD,
    TOPIC,
    WORD,
    Kafka,
    running_kafka,
    wait,
)
from tests.monitoring.pipeline.spark.queries import Query
from tests.monitoring.pipeline.spark.test_batch import plain, plain_rows

WAIT_S = 400
KILLS, STOPS = 2, 3
ROWS = ("log_partition", "log_offset")

#: What is killed. It is ready before it is told to begin: then the kill falls into the reading, not into the start.
DRIVER = """
import sys
from coordinatord.monitoring.pipeline.source.frames import start_spark
from tests.monitoring.pipeline.spark.conftest import SETTINGS
from tests.monitoring.pipeline.spark.test_kafka import start
spark = start_spark(**SETTINGS)
sys.stdin.readline()
start(spark, *sys.argv[1:]).awaitTermination(600)
"""


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with running_kafka(kafka_libs, tmp_path_factory.mktemp("kafka") / "broker") as running:
        for number in range(4):
            running.commit(f"first-{number}", range(20))
        yield running


def start(spark: Any, bootstrap: str, sink: str, limit: int = 25, **trigger: Any) -> Any:
    """A stream of commits into Parquet files, which with its checkpoint makes for exactly once."""
    source = Source(bootstrap=bootstrap, maxRecordsPerTrigger=limit)
    writer = source.read_stream(spark, "offset_commits", columns=ROWS).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{sink}/checkpoint").option("path", f"{sink}/rows")
    return Query(writer.trigger(**(trigger or {"processingTime": "0 seconds"})))


def committed(kafka: Kafka) -> Counter[tuple[int, int]]:
    """Which commits are in the broker's files."""
    return Counter(
        (row["log_partition"], row["log_offset"]) for row in rows_in(kafka.broker.data_dir)["offset_commits"]
    )


def test_a_batch_is_what_is_in_the_files(spark: Any, kafka: Kafka) -> None:
    expected = rows_in(kafka.broker.data_dir)
    found = Source(bootstrap=kafka.plain, splitBytes=2000).read(spark, "offset_commits")
    assert found.rdd.getNumPartitions() > 1
    assert plain(found.collect()) == plain_rows(expected["offset_commits"])
    assert len(expected["offset_commits"]) >= 240


@pytest.mark.timeout(1800)  # half a minute on an idle machine; each driver brings a JVM
def test_queries_that_are_killed_and_stopped_read_every_record_once(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    rng = random.Random(31)
    sink = tmp_path / "sink"
    batches = sink / "checkpoint" / "commits"
    writer = threading.Thread(target=kafka.commit, args=("while-killed", range(300)))
    with (tmp_path / "driver.log").open("wb") as log:
        drivers = [ready_driver(kafka, sink, log) for _ in range(KILLS)]
    writer.start()
    try:
        for driver in drivers:
            done = len(list(batches.glob("[0-9]*")))
            assert driver.stdin is not None
            driver.stdin.write(b"\n")
            driver.stdin.flush()
            wait(
                lambda: driver.poll() is not None or len(list(batches.glob("[0-9]*"))) > done,  # noqa: B023
                "a batch",
                2.5 * WAIT_S,
            )
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
            time.sleep(rng.random() * 0.7)
            end(driver)
    finally:
        for driver in drivers:
            end(driver)
    for _ in range(STOPS):
        query = start(spark, kafka.plain, str(sink))
        time.sleep(rng.random() * 1.5)
        query.stop()
        assert query.exception() is None
    writer.join(WAIT_S)
    query = start(spark, kafka.plain, str(sink), 1000, availableNow=True)
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None
    found = Counter((row[0], row[1]) for row in spark.read.parquet(str(sink / "rows")).collect())
    assert found == committed(kafka)


def ready_driver(kafka: Kafka, sink: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, kafka.plain, str(sink)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=log, start_new_session=True, cwd=Path(__file__).parents[4],
    )  # fmt: skip


def end(driver: subprocess.Popen[bytes]) -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)  # its JVM is of its session
        driver.wait(30)


def test_steps_and_ends(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    """Micro-batches are no larger than asked for, and AvailableNow ends where the log did when it began."""
    before = committed(kafka)
    query = start(spark, kafka.plain, str(tmp_path), 100, availableNow=True)
    kafka.commit("meanwhile", range(3))
    assert query.awaitTermination(WAIT_S)
    rows = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert max(rows) <= 100
    assert len(rows) >= 2
    found = Counter((row[0], row[1]) for row in spark.read.parquet(str(tmp_path / "rows")).collect())
    assert not before - found
    assert max(found.values()) == 1


def test_from_the_end_on(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    """startingOffsets=latest: what was there before is not read."""
    found: list[tuple[str, int]] = []

    def process(frame: Any, _number: int) -> None:
        found.extend((row["group_id"], row["committed_offset"]) for row in frame.collect())

    stream = Source(bootstrap=kafka.plain, startingOffsets="latest").read_stream(spark, "offset_commits")
    writer = stream.writeStream.foreachBatch(process).option("checkpointLocation", str(tmp_path))
    query = Query(writer.trigger(availableNow=True))
    assert query.awaitTermination(WAIT_S)
    assert found == []
    kafka.commit("later", range(2))
    query = Query(writer.trigger(availableNow=True))
    assert query.awaitTermination(WAIT_S)
    assert sorted(found) == [("later", offset) for offset in (0, 1) for _ in range(PARTITIONS)]


@pytest.mark.parametrize(
    "changed", [{}, {"sasl_mechanism": "PLAIN", "sasl_plain_password": PLAIN_WORD}], ids=["scram", "plain"]
)
def test_credentials_are_passed_on(spark: Any, kafka: Kafka, changed: dict[str, str]) -> None:
    source = Source(bootstrap=kafka.secure, **kafka.secure_options(**changed))
    assert source.read(spark, "offset_commits").count() == sum(committed(kafka).values())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"sasl_plain_password": "no-such-word"},
            f"the user {READER} in with SASL SCRAM-SHA-512: the name or the password",
        ),
        ({"sasl_mechanism": "PLAIN"}, f"the user {READER} in with SASL PLAIN: the name or the password"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "does not offer kafka.sasl_mechanism=SCRAM-SHA-256"),
        ({"ssl_cafile": "other.pem"}, "is not trusted .*: give the authority that signed it with kafka.ssl_cafile"),
        ({"ssl_cafile": None}, "which is none, so this machine's own authorities"),
        ({"ssl_cafile": "missing.pem"}, "missing.pem: there is no such file here"),
        ({"sasl_plain_username": STRANGER, "sasl_plain_password": STRANGER_WORD}, f"--allow-principal User:{STRANGER}"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "a port that wants TLS does so"),
    ],
)
def test_what_is_wrong_is_one_sentence(spark: Any, kafka: Kafka, changed: dict[str, str | None], sentence: str) -> None:
    if changed.get("ssl_cafile"):
        changed = {"ssl_cafile": str(kafka.directory / str(changed["ssl_cafile"]))}
    options = kafka.secure_options(**changed)
    # Another attempt would not help, so the patience, longer than this test may take, is not used.
    source = Source(bootstrap=kafka.secure, patienceSeconds=10_000, **options)
    with pytest.raises(PySparkException, match=f"SourceError: .*{sentence}") as told:
        source.read(spark, "offset_commits").count()
    assert options["kafka.sasl_plain_password"] not in str(told.value)


@contextlib.contextmanager
def told_at_info(spark: Any) -> Iterator[Any]:
    """What Spark's JVM logs at INFO, all of it, as a java.io.StringWriter."""
    jvm = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    core, info = log4j.core, log4j.Level.INFO
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    writer, before = jvm.java.io.StringWriter(), root.getLevel()
    layout = core.layout.PatternLayout.createDefaultLayout()
    appender = core.appender.WriterAppender.createAppender(layout, None, writer, "told", False, True)
    appender.start()
    root.addAppender(appender, info, None)
    root.setLevel(info)
    context.updateLoggers()
    try:
        yield writer
    finally:
        root.removeAppender("told")
        root.setLevel(before)
        context.updateLoggers()


def test_passwords_are_shown_nowhere(
    spark: Any, kafka: Kafka, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told_at_info(spark) as log:
        shown = what_is_shown(spark, kafka, tmp_path, capfd, monkeypatch)
    logged = log.toString()
    assert "Reading table" in logged
    assert "from DataSourceV2 named 'consumer_offsets'" in logged
    assert "consumer_offsets" in shown
    assert WORD not in shown
    assert WORD not in logged


def what_is_shown(spark: Any, kafka: Kafka, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Plans, descriptions, progress, checkpoints of reads with SASL that succeed."""
    options = kafka.secure_options()
    source = Source(bootstrap=kafka.secure, **options)
    broker = {name.removeprefix("kafka."): value for name, value in options.items()}
    frame = source.read(spark, "offset_commits")
    try:
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode)
        assert frame.count() > 0
        stream = source.read_stream(spark, "offset_commits")
        query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = Query(query.trigger(availableNow=True))
        assert query.awaitTermination(WAIT_S)
        query.explain(extended=True)
        (tmp_path / "out").mkdir()
        monkeypatch.setattr(ingest, "HERE_BYTES", 0)  # workers of Spark read it
        assert Intake(spark, Job(source, tmp_path / "out", kafka.secure, broker)).take(7_000, with_sample=True)
        listed = ", ".join(f"'{name}' '{value}'" for name, value in {"bootstrap": kafka.secure, **options}.items())
        spark.sql(f"CREATE TABLE secured USING consumer_offsets OPTIONS ({listed})")
        described = spark.sql("DESCRIBE EXTENDED secured").collect() + spark.sql("SHOW CREATE TABLE secured").collect()
        assert "CREATE TABLE" in str(described)
    finally:
        spark.sql("DROP TABLE IF EXISTS secured")
    captured = capfd.readouterr()
    return "\n".join(
        [captured.out, captured.err, str(described), str(query.lastProgress), query.status["message"]]
        + [repr(Job(source, tmp_path, kafka.secure, broker))]
        + [frame._jdf.queryExecution().toString()]
        + [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    )


def test_a_broker_that_goes_away_is_told_of(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    host = kafka.plain.partition(":")[0]
    proxied = f"{host}:{kafka.proxied_port}"
    seen: list[int] = []
    source = Source(bootstrap=proxied, maxRecordsPerTrigger=20, patienceSeconds=30)
    with RecordingProxy(host, kafka.proxied_port, host, kafka.proxy_target_port):
        stream = source.read_stream(spark, "offset_commits").writeStream
        stream = stream.foreachBatch(lambda frame, _number: seen.append(frame.count()))
        query = Query(stream.option("checkpointLocation", str(tmp_path)))
        wait(lambda: len(seen) >= 2, "two batches", WAIT_S)
    with pytest.raises(
        PySparkException, match=f"(SourceError|Refused): (no broker answers at {proxied}|.* could not be read from)"
    ):
        query.awaitTermination(WAIT_S)


@pytest.mark.timeout(1200)
def test_a_group_is_set_back_to_a_moment(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    """From the broker with SASL and TLS to tables, to the file, and by Kafka's own tool back to the offsets of then."""
    group = "set back"
    producer = KafkaProducer(bootstrap_servers=kafka.plain)
    for partition in range(PARTITIONS):
        for _ in range(20):
            producer.send(TOPIC, b"x", partition=partition)
    producer.close()
    kafka.commit(group, range(5))
    time.sleep(0.01)
    moment_ms = int(time.time() * 1000)
    time.sleep(0.01)
    kafka.commit(group, range(5, 9))

    config, out, csv = tmp_path / "reader.properties", tmp_path / "out", tmp_path / "reset.csv"
    options = kafka.secure_options().items()
    config.write_text("# who reads\n" + "".join(f"{name.removeprefix('kafka.')}={value}\n" for name, value in options))
    run = ["run", "--bootstrap", kafka.secure, "--broker-config", str(config), "--table", "commits", "--groups", group]
    for command in (run, ["at", "--group", group, "--time", str(moment_ms), "--csv", str(csv)]):
        told = CliRunner().invoke(cli, ["pipeline", *command, "--out", str(out)])
        assert told.exit_code == 0, told.output
        assert WORD not in told.output
    lines = told.output.splitlines()
    (tool,) = [line for line in lines if line.startswith("  kafka-consumer-groups ")]
    arguments = shlex.split(tool)[1:]
    arguments[arguments.index("--bootstrap-server") : arguments.index("--bootstrap-server") + 2] = []
    assert offsets(kafka, group) == [8] * PARTITIONS
    kafka.broker.tool("ConsumerGroupCommand", *arguments)
    assert offsets(kafka, group) == [4] * PARTITIONS


def offsets(kafka: Kafka, group: str) -> list[int | None]:
    consumer = KafkaConsumer(group_id=group, bootstrap_servers=kafka.plain)
    found = [consumer.committed(TopicPartition(TOPIC, partition)) for partition in range(PARTITIONS)]
    consumer.close()
    return found


def replaced(directory: Path) -> Counter[int]:
    """Segments by inode: those that the cleaner has made are others."""
    return Counter(path.stat().st_ino for path in directory.glob("*.log"))


@contextlib.contextmanager
def eager_cleaner(kafka: Kafka) -> Iterator[None]:
    """Segments end at once and are cleaned at once."""
    times = ("segment.ms", "min.compaction.lag.ms", "delete.retention.ms")
    kafka.configure(**dict(zip(times, ("100", "0", "0"), strict=True)), **{"min.cleanable.dirty.ratio": "0.01"})
    try:
        yield
    finally:
        kafka.configure(**dict.fromkeys(times, "604800000"), **{"min.cleanable.dirty.ratio": "1"})


@pytest.mark.timeout(1200)
def test_segments_that_kafka_cleans_under_a_query(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    """A stream over the directory of a running broker: no row twice, none that was not written, none missing of those
    that are left. A batch that was planned before and read after the cleaning says so, or reads what is left.
    """
    data, group = kafka.broker.data_dir, "cleaned"
    rows: list[tuple[int, int, str, int, int]] = []

    def process(frame: Any, _number: int) -> None:
        rows.extend(tuple(row) for row in frame.collect())

    columns = (*ROWS, "group_id", "partition", "committed_offset")
    source = Source(str(data), maxRecordsPerTrigger=40)
    stream = source.read_stream(spark, "offset_commits", columns=columns).writeStream.foreachBatch(process)
    stream = stream.option("checkpointLocation", str(tmp_path))
    with eager_cleaner(kafka):
        kafka.commit(group, range(10))
        (log,) = [log for log in find_logs([str(data)], OFFSETS_TOPIC, None) if group in groups_in(log.directory)]
        directory = Path(log.directory)
        planned = plan(log, 1000)
        query = Query(stream)
        before, generations = replaced(directory), 0
        ends_s = time.monotonic() + WAIT_S
        for number in itertools.takewhile(lambda _: time.monotonic() < ends_s, itertools.count(10, 5)):
            kafka.commit(group, range(number, number + 5))
            now = replaced(directory)
            generations += bool(before - now)
            before = now
            if generations >= 6:
                break
        wait(lambda: not any(each.name.endswith(".swap") for each in directory.iterdir()), "the cleaner")
        query.stop()
        assert query.exception() is None
    assert generations >= 6, "the cleaner has replaced segments while the query was reading"
    last = Query(stream.trigger(availableNow=True))
    assert last.awaitTermination(WAIT_S)
    assert last.exception() is None

    places = Counter(row[:2] for row in rows)
    assert max(places.values()) == 1
    assert {partition for _, _, name, partition, _ in rows if name == group} == set(range(PARTITIONS))
    left = rows_in(directory)["offset_commits"]
    assert {(row["log_partition"], row["log_offset"]) for row in left} <= set(places)
    written = {row["log_offset"]: row["committed_offset"] for row in left if row["group_id"] == group}
    assert len(written) < (number + 5) * PARTITIONS, "something has been cleaned away"
    seen = {row[1]: row[4] for row in rows if row[2] == group}
    assert {offset: seen[offset] for offset in written} == written

    with pytest.raises(SegmentReplaced, match="was replaced or removed after this read was planned"):
        offsets_of(planned, on_replaced="fail")
    again = offsets_of(planned)
    assert len(again) == len(set(again))
    assert set(again) == {row["log_offset"] for found in rows_in(directory).values() for row in found}


def groups_in(directory: str) -> set[str]:
    return {row["group_id"] for row in rows_in(Path(directory)).get("offset_commits", [])}


def test_the_command_line_takes_a_file_of_kafkas_tools(kafka: Kafka, tmp_path: Path) -> None:
    """SASL and TLS by --command-config: topics and lag are those of the plain listener; a wrong word is told."""
    file = tmp_path / "client.properties"

    def write(word: str) -> None:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={module} required username="{READER}" password="{word}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.cafile}\n"
        )

    def told(*arguments: str, status: int = 0) -> str:
        done = CliRunner().invoke(cli, [*arguments])
        assert done.exit_code == status, done.output
        return done.output

    write(WORD)
    secure = ("--bootstrap", kafka.secure, "--command-config", str(file))
    listed = [each["topic"] for each in json.loads(told("topics", "list", "--json", *secure))]
    assert listed == ["orders"]
    names = ("group_id", "topic", "partition", "committed_offset", "end_offset", "lag", "status")
    ours, plain = (
        [tuple(row[name] for name in names) for row in json.loads(told("lag", "--json", "first-?", *where))]
        for where in (secure, ("--bootstrap", kafka.plain))
    )
    assert ours == plain
    assert len(ours) == 4 * PARTITIONS
    write("wrong")
    sentence = f"{kafka.secure} does not let the user {READER} in with SASL SCRAM-SHA-512: the name or the password"
    assert sentence in told("topics", "list", *secure, status=2)
