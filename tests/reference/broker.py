"""Apache Kafka itself, as the authority that tests ask.

The jars come from Maven Central into a cache outside of the repository (`~/.cache/coordinatord-tests/kafka-4.4.0`; the
variable `COORDINATORD_TESTS_CACHE` names another parent directory). Nothing of Kafka is copied into the repository.

* :func:`kafka_libs` downloads them once, however many test processes ask at the same time;
* :func:`running_broker` formats a fresh data directory, runs one combined KRaft broker and controller on free ports of
  127.0.0.1 and stops it by its process id;
* :func:`run_tool` runs one of Kafka's own command-line tools (``DumpLogSegments``, ``ConsumerGroupCommand``, ...).

The module is deliberately not called `kafka`: a test directory on `sys.path` would then hide kafka-python.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.daemon import answers_api_versions, free_port

KAFKA_VERSION = "4.4.0"
EARLIER_VERSION = "4.3.0"  # its answers are recorded where they differ
LOG4J_VERSION = "2.25.4"  # the one Kafka depends on; its binding to slf4j is what makes the broker's log readable
HOST = "127.0.0.1"

JAVA_MIN_VERSION = 17
# The tools' quick-start options, and the serial collector: a test broker lives for seconds on few cores.
JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
DOWNLOAD_TIMEOUT_S = 600
START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 180
TOOL_TIMEOUT_S = 120
START_ATTEMPTS = 3  # a port that was free when we looked can be taken by another process before Kafka binds it

NEEDS = "Java 17 and Maven"

# Written, with the pom that was fetched, when a download is complete: an interrupted or outdated one is fetched again.
COMPLETE_MARK = ".complete"

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>coordinatord.tests</groupId>
  <artifactId>reference-kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

# The smallest single-node set-up: everything that Kafka replicates by default has one replica here.
BASE_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "0",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",  # the default of 128 MiB would eat a sixth of our heap
    "num.network.threads": "2",
    "num.io.threads": "4",
}

CLUSTER_ID = "coordinatordReferenceA"  # any 22 characters of URL-safe base64

LOG4J2_PROPERTIES = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class ReferenceUnavailable(RuntimeError):
    """Kafka cannot be had on this machine (no Java, no Maven and no cached jars, or no network)."""


def java_version() -> int | None:
    """The major version of ``java`` on PATH, or None when there is none."""
    java = shutil.which("java")
    if java is None:
        return None
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    match = re.search(r'version "(\d+)', shown)
    return int(match.group(1)) if match else None


def cache_directory() -> Path:
    """The directory, outside of the repository, that keeps what tests download."""
    parent = os.environ.get("COORDINATORD_TESTS_CACHE")
    return Path(parent) if parent else Path.home() / ".cache" / "coordinatord-tests"


@contextlib.contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Hold an advisory lock, so that one of several test processes downloads or compiles and the others wait."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def kafka_libs(kafka: str = KAFKA_VERSION) -> Path:
    """The directory with Kafka's jars, downloaded at the first call. Raises ReferenceUnavailable."""
    version = java_version()
    if version is None or version < JAVA_MIN_VERSION:
        raise ReferenceUnavailable(f"needs {NEEDS}: found Java {version}")
    home = cache_directory() / f"kafka-{kafka}"
    libs, pom = home / "libs", pom_of(kafka)
    if not _complete(libs, pom):
        with exclusive(home / "lock"):
            if not _complete(libs, pom):
                _download(home, libs, pom)
    return libs


def pom_of(kafka: str) -> str:
    """Return the pom of a version of Kafka."""
    return POM.replace(KAFKA_VERSION, kafka)


def _complete(libs: Path, pom: str) -> bool:
    mark = libs / COMPLETE_MARK
    return mark.exists() and mark.read_text() == pom


def _download(home: Path, libs: Path, text: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ReferenceUnavailable(f"needs {NEEDS}: no mvn on PATH and no Kafka in {libs}")
    pom = home / "pom.xml"
    pom.write_text(text)
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ReferenceUnavailable(f"needs {NEEDS}: mvn failed: {(done.stdout + done.stderr)[-2000:]}")
    (libs / COMPLETE_MARK).write_text(text)


def run_java(
    libs: Path, main_class: str, *arguments: str, options: Sequence[str] = (), timeout_s: float = TOOL_TIMEOUT_S
) -> str:
    """Run a main class of the jars to its end and return its standard output; if it fails, raise with all it said."""
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options]
    command += ["-cp", f"{libs}/*", main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4000:]
        raise RuntimeError(f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{said}")
    return done.stdout


TOOLS = {
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "DumpLogSegments": "org.apache.kafka.tools.DumpLogSegments",
    "TopicCommand": "org.apache.kafka.tools.TopicCommand",
    "GetOffsetShell": "org.apache.kafka.tools.GetOffsetShell",
    "DeleteRecordsCommand": "org.apache.kafka.tools.DeleteRecordsCommand",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "BrokerApiVersionsCommand": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


def run_tool(libs: Path, tool: str, *arguments: str, timeout_s: float = TOOL_TIMEOUT_S) -> str:
    """Run one of Kafka's command-line tools by the last part of its class name."""
    if tool == "ConsumerGroupCommand":  # five seconds for each answer, if nothing is said
        arguments = (*arguments, "--timeout", str(TOOL_TIMEOUT_S * 1000))
    return run_java(libs, TOOLS[tool], *arguments, timeout_s=timeout_s)


@dataclass(slots=True)
class KafkaBroker:
    """One running broker. ``bootstrap`` is the address it really listens on, whatever it advertises."""

    libs: Path
    port: int
    data_dir: Path
    properties_file: Path
    log_file: Path
    process: subprocess.Popen[bytes]
    began_s: float  # when the process was started, by time.monotonic()
    host: str = HOST
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def tool(self, name: str, *arguments: str, timeout_s: float = TOOL_TIMEOUT_S) -> str:
        """Run one of Kafka's tools against this broker (``--bootstrap-server`` is added)."""
        return run_tool(self.libs, name, "--bootstrap-server", self.bootstrap, *arguments, timeout_s=timeout_s)

    def dump_log(self, segment: Path, *arguments: str) -> str:
        """What DumpLogSegments prints of one segment file of any broker's, ours included."""
        return run_tool(self.libs, "DumpLogSegments", "--files", str(segment), *arguments)

    def log_tail(self, characters: int = 4000) -> str:
        return self.log_file.read_text(errors="replace")[-characters:] if self.log_file.exists() else ""

    def stop(self, *, kill: bool = False) -> None:
        """End the process: in order (SIGTERM), or as a crash would (SIGKILL)."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_TIMEOUT_S)


@contextlib.contextmanager
def running_broker(
    libs: Path, directory: Path, overrides: Mapping[str, str] | None = None, *, advertised_port: int | None = None
) -> Iterator[KafkaBroker]:
    """A broker with a fresh data directory below `directory`, up for the duration of the block.

    `overrides` are lines of server.properties. `advertised_port` makes clients come in through a proxy on that port.
    """
    broker = start_broker(libs, directory, overrides, advertised_port=advertised_port)
    try:
        yield broker
    finally:
        broker.stop()


def start_broker(
    libs: Path, directory: Path, overrides: Mapping[str, str] | None = None, *, advertised_port: int | None = None
) -> KafkaBroker:
    """Format, start and wait until it answers; a port lost to somebody else is tried again with another."""
    for attempt in range(1, START_ATTEMPTS + 1):
        attempt_directory = directory / f"kafka-{attempt}"
        broker = launch(libs, attempt_directory, overrides or {}, advertised_port)
        if wait_until_serving(broker):
            return broker
        broker.stop(kill=True)
        if "Address already in use" not in broker.log_tail(20_000) or attempt == START_ATTEMPTS:
            raise RuntimeError(f"Kafka did not start:\n{broker.log_tail()}")
    raise AssertionError("unreachable: the last attempt returns or raises")


@dataclass(slots=True)
class BrokerDirectory:
    """Where a broker lives: its server.properties, its data directory, its log."""

    libs: Path
    directory: Path
    port: int
    overrides: Mapping[str, str]

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def logging(self) -> str:
        return f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"

    def format(self, *arguments: str, cluster_id: str = CLUSTER_ID) -> None:
        """Format the data directory."""
        format_ = ["format", "-t", cluster_id, "-c", str(self.properties_file), *arguments]
        run_java(self.libs, "kafka.tools.StorageTool", *format_, options=[self.logging])

    def start(self) -> KafkaBroker:
        """Start the broker, and wait until it answers."""
        broker = self.launch()
        if not wait_until_serving(broker):
            broker.stop(kill=True)
            raise RuntimeError(f"Kafka did not start:\n{broker.log_tail()}")
        return broker

    def launch(self, jvm: Sequence[str] = JVM) -> KafkaBroker:
        """Begin to start; :func:`wait_until_serving` is the caller's."""
        command = ["java", *jvm, self.logging, "-cp", f"{self.libs}/*", "kafka.Kafka", str(self.properties_file)]
        log_file = self.directory / "broker.log"
        began_s = time.monotonic()
        with log_file.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)
        return KafkaBroker(
            self.libs,
            self.port,
            self.data_dir,
            self.properties_file,
            log_file,
            process,
            began_s,
            overrides=self.overrides,
        )


def prepare_broker(
    libs: Path, directory: Path, overrides: Mapping[str, str] | None = None, *, advertised_port: int | None = None
) -> BrokerDirectory:
    """Make `directory` with a server.properties for free ports. Its data directory is still to be formatted."""
    directory.mkdir(parents=True, exist_ok=True)
    port, controller_port = free_port(), free_port()
    prepared = BrokerDirectory(libs, directory, port, overrides or {})
    properties = {
        **BASE_PROPERTIES,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised_port or port}",
        "controller.quorum.voters": f"{BASE_PROPERTIES['node.id']}@{HOST}:{controller_port}",
        "log.dirs": str(prepared.data_dir),
        **prepared.overrides,
    }
    prepared.properties_file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    (directory / "log4j2.properties").write_text(LOG4J2_PROPERTIES)
    return prepared


def launch(
    libs: Path,
    directory: Path,
    overrides: Mapping[str, str],
    advertised_port: int | None = None,
    jvm: Sequence[str] = JVM,
) -> KafkaBroker:
    """Format `directory` and begin to start; :func:`wait_until_serving` is the caller's."""
    prepared = prepare_broker(libs, directory, overrides, advertised_port=advertised_port)
    prepared.format()
    return prepared.launch(jvm)


def wait_until_serving(broker: KafkaBroker, timeout_s: float = START_TIMEOUT_S) -> bool:
    """Wait until the broker answers a request on its port; False when it ended or the time is over. A wait that is cut
    off, by pytest's timeout or Ctrl-C, leaves no broker behind.
    """
    deadline = time.monotonic() + timeout_s
    try:
        while time.monotonic() < deadline and broker.process.poll() is None:
            if answers_api_versions(broker.port):
                return True
            time.sleep(0.1)
    except BaseException:
        broker.stop(kill=True)
        raise
    return False
