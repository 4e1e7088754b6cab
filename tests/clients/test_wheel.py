"""The wheels outside of the checkout: `pip wheel .`, a clean environment, the daemon and a kafka-python consumer.

Runs with each CPython that pyproject.toml names and that PATH has as `python3.X`, and with the one that runs the tests.
Other versions are skipped; with CI=true the one that runs the tests has to be among those that are named.

The wheel with the hot modules as C (`make wheel`) is that of the Python of .venv alone, made from what `make compiled`
has made.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon import HOST, REPOSITORY, answers_api_versions, free_port
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.interpreted, pytest.mark.timeout(900)]

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PREFIX = "Programming Language :: Python :: 3."
VERSIONS = [each.removeprefix(PREFIX) for each in PROJECT["project"]["classifiers"] if each.startswith(PREFIX)]
CURRENT = str(sys.version_info.minor)
SOURCES = ("coordinatord", "protocol", "pyproject.toml", "setup.py", "README.md", "LICENSE")
INSTALL_TIMEOUT_S = 600
KAFKA_PYTHON = next(
    each.replace("[lz4,snappy,zstd]", "")
    for each in PROJECT["project"]["optional-dependencies"]["test"]
    if "kafka-python" in each
)

CONSUMER = """
import sys, time
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

bootstrap = sys.argv[1]
producer = KafkaProducer(bootstrap_servers=bootstrap)
sent = [b"value-%d" % number for number in range(5)]
for value in sent:
    producer.send("orders", value).get(timeout=20)
consumer = KafkaConsumer("orders", group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False,
                         bootstrap_servers=bootstrap)
read, deadline = [], time.monotonic() + 60
while len(read) < len(sent) and time.monotonic() < deadline:
    read += [record.value for records in consumer.poll(timeout_ms=5_000).values() for record in records]
assert read == sent, read
consumer.commit()
print("committed", consumer.committed(TopicPartition("orders", 0)))
consumer.close()
"""

IMPORT_ALL = """
import importlib, pkgutil, sys
import coordinatord, kafka_wire

extras = {
    "cryptography", "jwt", "kafka", "numba", "numpy", "pandas", "plotly", "psycopg", "py4j", "pyarrow",
    "pyspark", "rich", "trustme",
}
imported = 0
for package in (coordinatord, kafka_wire):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
            imported += 1
        except ModuleNotFoundError as missing:
            if missing.name.partition(".")[0] not in extras:
                raise
print(coordinatord.__file__, imported)
"""


TYPED = """
import pytest

from coordinatord.testing import GroupView, Kafka

pytestmark = pytest.mark.kafka(topics={"orders": 4}, settings={"group.max.size": 5})


def test_a_test(kafka: Kafka) -> None:
    kafka.put("orders", range(8))
    values: list[int] = kafka.records("orders", decode=int)
    view: GroupView = kafka.group("billing").until_stable(members=2, timeout=10).result
    trigger: str = kafka.group("billing").rebalances[-1].trigger
    lag: dict[tuple[str, int], int] = kafka.lag("billing")
    with kafka.fail("OffsetCommit", "NOT_COORDINATOR", times=3) as fault:
        assert fault.hits == 0
    with kafka.hold("SyncGroup", client="a") as held:
        held.arrived(1, timeout=5)
    with kafka.group("billing").rebalance("deploy"), kafka.group("billing").loading():
        kafka.advance(minutes=10)
    print(values, view.members[0].client_id, trigger, lag)


async def test_a_coroutine(kafka: Kafka) -> None:
    view = await kafka.group("billing").until(lambda view: view.is_stable)
    async with kafka.blackhole("a") as hole:
        hits: int = await hole.arrived()
    print(view.assignment["a"], hits)


def test_another() -> None:
    with Kafka(settings={"group.max.size": 5}) as kafka:
        kafka.restart(crash=True)
"""


def first_example() -> str:
    """The first test of docs/testing.md."""
    return re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / "docs" / "testing.md").read_text(), re.M | re.S)[0]


def test_the_python_that_runs_the_tests_is_one_that_is_named() -> None:
    if os.environ.get("CI") != "true" and CURRENT not in VERSIONS:
        pytest.skip(f"skipped: pyproject.toml does not name Python 3.{CURRENT}")
    assert CURRENT in VERSIONS, f"Python 3.{CURRENT} runs the tests, pyproject.toml names {VERSIONS}"


@pytest.fixture(params=sorted({*VERSIONS, CURRENT}), ids=lambda minor: f"3.{minor}")
def interpreter(request: pytest.FixtureRequest) -> str:
    """The path of a CPython of one minor version."""
    if request.param == CURRENT:
        return sys.executable
    found = shutil.which(f"python3.{request.param}")
    if found is None:
        pytest.skip(f"skipped: PATH has no python3.{request.param}")
    # pyenv has a script for each version on PATH, which runs those alone that are chosen.
    chosen = {**os.environ, "PYENV_VERSION": f"3.{request.param}"}
    told = subprocess.run(
        [found, "-c", "import sys; print(sys.executable)"], env=chosen, capture_output=True, text=True, timeout=60
    )
    if told.returncode:
        pytest.skip(f"skipped: {found} does not run: {told.stderr.strip()[:200]}")
    return told.stdout.strip()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a user's shell has: nothing that points into the checkout."""
    ours = ("COORDINATORD_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"HOME": str(tmp_path)}


def run(command: Sequence[str | Path], cwd: Path, environment: dict[str, str]) -> str:
    """Run a command to its end and return what it printed; fail with its output if it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-4_000:]}"
    return done.stdout


def built(python: Path, directory: Path, environment: dict[str, str]) -> Path:
    """The wheel of a copy of the sources, as in a fresh clone: nothing that an earlier build generated is in it."""
    copy = directory / "sources"
    copy.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignore)
        else:
            shutil.copy(source, copy / name)
    for path in (copy / "protocol" / "kafka_wire" / "generated").iterdir():
        if path.name != "__init__.py":
            path.unlink()
    run([python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", directory / "dist", "."], copy, environment)
    shutil.rmtree(copy)
    (wheel,) = (directory / "dist").glob("coordinatord-*.whl")
    return wheel


@contextmanager
def serving(coordinatord: Path, directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """`coordinatord serve` as installed; its address. SIGTERM has to end it with exit code 0."""
    port = free_port()
    log = directory / "daemon.log"
    command = [coordinatord, "serve", "--listen", f"{HOST}:{port}", "--data-dir", directory / "data"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)), cwd=directory, env=environment, stdout=output, stderr=output, process_group=0
        )
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not answers_api_versions(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)
        yield f"{HOST}:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(90)


def test_the_wheel_works_outside_of_the_checkout(interpreter: str, tmp_path: Path, environment: dict[str, str]) -> None:
    run([interpreter, "-m", "venv", tmp_path / "venv"], tmp_path, environment)
    bin_directory = tmp_path / "venv" / "bin"
    python, coordinatord = bin_directory / "python", bin_directory / "coordinatord"
    wheel = built(python, tmp_path, environment)
    run([python, "-m", "pip", "install", "--quiet", f"{wheel}[pytest]", KAFKA_PYTHON], tmp_path, environment)
    run([python, "-m", "pip", "check"], tmp_path, environment)

    assert "serve" in run([coordinatord, "--help"], tmp_path, environment)
    assert "JoinGroup" in run([python, "-m", "kafka_wire", "apis"], tmp_path, environment)
    where, imported = run([python, "-c", IMPORT_ALL], tmp_path, environment).split()
    assert Path(where).is_relative_to(tmp_path / "venv")
    assert int(imported) > 200, "most modules need no extra"

    (tmp_path / "test_first.py").write_text(first_example())
    assert "1 passed" in run([python, "-m", "pytest", "-q", "test_first.py"], tmp_path, environment)

    (tmp_path / "consumer.py").write_text(CONSUMER)
    with serving(coordinatord, tmp_path, environment) as bootstrap:
        assert run([python, "consumer.py", bootstrap], tmp_path, environment) == "committed 5\n"
        assert '"build":"interpreted"' in (tmp_path / "daemon.log").read_text()
        why = [coordinatord, "groups", "why", "billing", "--bootstrap", bootstrap]
        deadline_s = time.monotonic() + PATIENCE_S
        while "generation 0 → 1" not in (told := run(why, tmp_path, environment)):
            assert time.monotonic() < deadline_s, told
            time.sleep(0.5)
    if interpreter == sys.executable:  # types are the same in all versions
        check_types(python, tmp_path, environment)


def check_types(python: Path, directory: Path, environment: dict[str, str]) -> None:
    """`mypy --strict` of a test, with the wheel's annotations."""
    (mypy,) = (each for each in PROJECT["project"]["optional-dependencies"]["lint"] if each.startswith("mypy"))
    run([python, "-m", "pip", "install", "--quiet", mypy], directory, environment)
    (directory / "test_typed.py").write_text(TYPED)
    run([python, "-m", "mypy", "--strict", "test_typed.py"], directory, environment)
    (directory / "test_wrong.py").write_text(TYPED.replace("members=2", "member=2"))
    with pytest.raises(AssertionError, match='Unexpected keyword argument "member"'):
        run([python, "-m", "mypy", "--strict", "test_wrong.py"], directory, environment)


def test_the_wheel_has_every_module_and_nothing_else(tmp_path: Path, environment: dict[str, str]) -> None:
    wheel = built(Path(sys.executable), tmp_path, environment)
    assert wheel.name.endswith("-py3-none-any.whl"), "without COORDINATORD_COMPILE it is for every system"
    assert content(wheel) == modules()


@pytest.mark.wheel_of_c
def test_the_wheel_of_c_works_outside_of_the_checkout(tmp_path: Path, environment: dict[str, str]) -> None:
    wheel = made_of_c()
    python_tag, abi_tag, platform_tag = wheel.stem.split("-")[2:]
    assert python_tag == abi_tag == f"cp3{CURRENT}"
    assert platform.machine() in platform_tag
    if platform.libc_ver()[0] == "glibc":  # auditwheel knows which of its versions the modules need
        assert "manylinux" in platform_tag, "not a tag that an index takes"
    hot = hot_modules()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert content(wheel) == modules() | {f"{name}{suffix}" for name in [*hot, "coordinatord__mypyc"]}

    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path, environment)
    python, coordinatord = (tmp_path / "venv" / "bin" / name for name in ("python", "coordinatord"))
    run([python, "-m", "pip", "install", "--quiet", wheel, KAFKA_PYTHON], tmp_path, environment)
    assert ", compiled, Python 3." in run([coordinatord, "--version"], tmp_path, environment)
    where = "import importlib, sys; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]))"
    loaded = run([python, "-c", where, *(name.replace("/", ".") for name in hot)], tmp_path, environment).split()
    assert {Path(each).relative_to((tmp_path / "venv").resolve()).name.endswith(suffix) for each in loaded} == {True}

    (tmp_path / "consumer.py").write_text(CONSUMER)
    with serving(coordinatord, tmp_path, environment) as bootstrap:
        assert run([python, "consumer.py", bootstrap], tmp_path, environment) == "committed 5\n"
    assert '"build":"compiled"' in (tmp_path / "daemon.log").read_text()


def made_of_c() -> Path:
    """The wheel of `make wheel`. Without an up-to-date build/compiled, which takes minutes, only CI makes one."""
    # `make test` hands its own variables to what it runs.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    asked = ["make", "--question", "build/compiled/.stamp"]
    if os.environ.get("CI") != "true" and subprocess.run(asked, cwd=REPOSITORY, env=inherited, check=False).returncode:
        pytest.skip("skipped: needs an up-to-date `make compiled`")
    return REPOSITORY / run(["make", "wheel"], REPOSITORY, inherited).splitlines()[-1]


def hot_modules() -> list[str]:
    """What setup.py names, as paths in a wheel without a suffix."""
    tree = ast.parse((REPOSITORY / "setup.py").read_text())
    (hot,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "HOT"
    )
    return [f"{folder}/{name}".removeprefix("protocol/") for folder in hot for name in hot[folder].split()]


def content(wheel: Path) -> set[str]:
    """What a wheel installs, beside its description."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    (license_file,) = (name for name in names if name.endswith("/LICENSE"))
    assert ".dist-info/" in license_file
    return {name for name in names if ".dist-info/" not in name and not name.endswith("/")}


def modules() -> set[str]:
    """What each wheel has to install."""
    expected = {f"coordinatord/{path.relative_to(REPOSITORY / 'coordinatord')}" for path in files("coordinatord")}
    registered = "coordinatord/monitoring/pipeline/registered/"
    expected = {name.removeprefix(registered) for name in expected}
    return expected | {
        f"kafka_wire/{path.relative_to(REPOSITORY / 'protocol/kafka_wire')}" for path in files("protocol")
    }


def files(folder: str) -> Iterator[Path]:
    """The modules of a folder, also generated ones, its marks of typed packages, what the codecs were made from, the
    live page, and recorded stories.
    """
    for path in (REPOSITORY / folder).rglob("*"):
        if (
            path.suffix == ".py"
            or path.name in ("py.typed", "digest.txt", "page.css")
            or path.parent.name in ("stories", "front")
        ):
            yield path
