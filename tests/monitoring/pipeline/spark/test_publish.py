"""Tables on another file system of Hadoop's: the run's own, file by file, whatever came between; an S3 among them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset, fs

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.publish import Place, Published, changes
from coordinatord.monitoring.pipeline.run.update import run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import TABLES
from tests.clients.families import toolchains
from tests.daemon import free_port
from tests.monitoring.pipeline.spark.test_run import NOW_MS, Log
from tests.monitoring.pipeline.truth.shares import ShareWorld
from tests.monitoring.pipeline.truth.world import World

ROOT = Path(__file__).parents[4]
SOME = ("lag", "commits")
HADOOP, SDK = "3.5.0", "2.35.4"
JARS = ",".join(
    [f"org.apache.hadoop:hadoop-aws:{HADOOP}"]
    + [f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts")]
)
BUNDLE = "software.amazon.awssdk:bundle"
"""640 MB, of which the three above, 18 MB, are what is used."""
BUCKET, KEY = "bucket", "key"
SERVER = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

class Handler(WSGIRequestHandler):
    def handle_expect_100(self):
        return True  # werkzeug says "100 Continue", too, and clients take the second one for the answer

run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=True,
           request_handler=Handler)
"""


def files(directory: Path) -> dict[str, bytes]:
    found = [path for path in directory.rglob("*.parquet") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


@pytest.fixture
def there(spark: Any, tmp_path: Path) -> Path:
    """The directory that is viewfs://other/there: a file system that is not the local one."""
    directory = tmp_path / "there"
    directory.mkdir()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.other.link./there", directory.as_uri())
    hadoop.set("fs.viewfs.impl.disable.cache", "true")  # another directory each time
    return directory


@pytest.mark.timeout(1200)  # two runs: half a minute, and many times that on a busy machine
def test_the_tables_are_the_runs_after_any_interruption(spark: Any, there: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    log = Log(tmp_path / "data" / "__consumer_offsets-0")
    groups = [f"group-{number}" for number in range(9)]
    for group in groups:
        log.commit(group, 5, NOW_MS - 1000)
    job = Job(Source(str(tmp_path / "data")), work, tables=SOME)
    run(spark, job, now_ms=NOW_MS)
    place = Place(spark, "viewfs://other/there/lag/")
    published = Published(place, work)
    assert published.update() == len(files(work / "tables")) > len(groups) // 2
    assert files(there / "lag" / "tables") == files(work / "tables")
    assert (there / "lag" / "state.json").read_bytes() == (work / "state.json").read_bytes()
    assert published.update() == 0, "what is there is not copied again"

    log.commit("group-3", 6, NOW_MS)
    run(spark, job, now_ms=NOW_MS + 1)
    assert files(there / "lag" / "tables") != files(work / "tables")
    put = place.put
    copied = []

    def fails(path: Path, name: str) -> None:
        if copied:
            raise SourceError("cut off")
        copied.append(name)
        put(path, name)

    place.put = fails  # type: ignore[method-assign]
    with pytest.raises(SourceError, match="cut off"):
        published.update()
    place.put = put  # type: ignore[method-assign]
    half = there / "lag" / copied[0]
    half.write_bytes(half.read_bytes()[:10])  # a file system without whole uploads
    half.with_name(f".{half.name}.crc").unlink()
    Published(place, work).update()
    assert files(there / "lag" / "tables") == files(work / "tables")

    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(SourceError, match=r"lag has tables that were not made in --work .*other: give the directory"):
        Published(Place(spark, "viewfs://other/there/lag"), other)
    with pytest.raises(SourceError, match=r"^--out viewfs://nobody/lag: .*nobody"):
        Published(Place(spark, "viewfs://nobody/lag"), work)


def test_what_is_copied_and_what_is_removed() -> None:
    assert changes({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 1, "d": 4}) == (["a", "c"], ["d"])


def test_a_file_system_without_its_jar_is_one_sentence(spark: Any) -> None:
    with pytest.raises(SourceError) as told:
        Place(spark, "s3a://bucket/lag")
    assert str(told.value) == (
        "--out s3a://bucket/lag: Spark has no jar with the file system s3a: add --conf "
        f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{HADOOP}"
    )
    with pytest.raises(SourceError, match=r"has no jar with the file system none: add --conf spark\.jars=JAR"):
        Place(spark, "none://bucket/lag")


@contextmanager
def s3(directory: Path) -> Iterator[str]:
    """HOST:PORT of a server that is compatible with S3, with an empty bucket."""
    port = free_port()
    python = toolchains.python("moto[s3,server]>=5.1,<6")
    with (directory / "s3.log").open("wb") as log:
        server = subprocess.Popen([python, "-c", SERVER, str(port)], cwd=directory, stdout=log, stderr=log)
    try:
        deadline_s = time.monotonic() + 300
        while "Running on" not in (directory / "s3.log").read_text():
            assert server.poll() is None, (directory / "s3.log").read_text()
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        objects(f"127.0.0.1:{port}").create_dir(BUCKET)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


def objects(address: str) -> fs.S3FileSystem:
    """Not through Hadoop: by Arrow's own client."""
    return fs.S3FileSystem(
        endpoint_override=address, scheme="http", region="us-east-1", access_key=KEY, secret_key=KEY,
        allow_bucket_creation=True,
    )  # fmt: skip


@pytest.mark.full
@pytest.mark.timeout(3600)  # an S3 server and 18 MB of jars are downloaded, once; two runs
def test_on_s3(tmp_path: Path) -> None:
    world = World(1)
    world.write(tmp_path / "data")
    ShareWorld(world, 1).write(tmp_path / "data")
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    plain |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT / "protocol")}
    with s3(tmp_path) as address:
        settings = {
            "spark.jars.packages": JARS,
            "spark.jars.excludes": BUNDLE,
            "spark.hadoop.fs.s3a.endpoint": f"http://{address}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": KEY,
        }
        command = [sys.executable, "-m", "coordinatord", "pipeline", "run", "--source", str(tmp_path / "data")]
        command += ["--out", f"s3a://{BUCKET}/lag", "--work", str(tmp_path / "work")]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        for times in (1, 2):
            done = subprocess.run(
                command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=1500, check=False
            )
            assert done.returncode == 0, done.stderr[-3000:]
            assert f"tables in s3a://{BUCKET}/lag/tables" in done.stdout
            found = objects(address).get_file_info(fs.FileSelector(f"{BUCKET}/lag/tables", recursive=True))
            paths = {each.path.removeprefix(f"{BUCKET}/lag/tables/"): each.path for each in found if each.is_file}
            here = files(tmp_path / "work" / "tables")
            assert paths.keys() == here.keys(), f"after {times} runs"
            for name, data in here.items():
                assert objects(address).open_input_stream(paths[name]).readall() == data, f"{name} after {times} runs"
            assert {name.partition("/")[0] for name in here} == TABLES.keys(), f"after {times} runs"
        table = dataset.dataset(f"{BUCKET}/lag/tables/lag", filesystem=objects(address), partitioning="hive")
        own = dataset.dataset(tmp_path / "work" / "tables" / "lag", partitioning="hive")
        rows = [sorted(map(str, each.to_table().to_pylist())) for each in (table, own)]
        assert rows[0] == rows[1] != []
