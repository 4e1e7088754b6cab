"""The generated codecs: they are what the declarations say, nobody uses stale ones, the daemon needs no construct."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from kafka_wire import codecs, fresh, generate, registry
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.errors import TruncatedError
from tests import conftest
from tests.daemon import REPOSITORY
from tests.protocol.messages import all_messages, every_version


def test_they_are_what_the_declarations_say() -> None:
    """Also where somebody has changed one of them by hand."""
    made = generate.modules()
    found = {path.name: path.read_text() for path in fresh.GENERATED.glob("*.py") if path.name != "__init__.py"}
    assert found.keys() == made.keys()
    assert [name for name, text in made.items() if found[name] != text] == []
    assert fresh.stored() == fresh.digest()


def test_each_version_has_functions_of_its_module() -> None:
    for cls, version in every_version():
        for function in (codecs.decoder(cls, version), codecs.encoder(cls, version)):
            assert function.__module__ == f"kafka_wire.generated.{cls.__module__.rpartition('.')[2]}"
    assert len(every_version()) > 400


def test_a_maker_fills_every_field() -> None:
    for cls in all_messages():
        default = cls()
        names = [field.name for field in codecs.schema_of(cls).fields]
        assert codecs.constructor(cls)(*[getattr(default, name) for name in names]) == default


def test_a_traceback_shows_the_line() -> None:
    try:
        codecs.decoder(HeartbeatRequest, 0)(b"\0\5abc", 0, 5)
    except TruncatedError as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
    assert Path(frame.filename).resolve() == fresh.GENERATED / "heartbeat.py"
    assert frame.name == "decode_heartbeat_request_v0_to_v2"
    assert frame.line == 'raise TruncatedError(f"group_id ends at {group_id_stop}, beyond {end}")'


# --- stale and missing modules ----------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A package kafka_wire of its own."""
    return Path(shutil.copytree(fresh.PACKAGE, tmp_path / "kafka_wire", ignore=shutil.ignore_patterns("__pycache__")))


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(copy.parent), str(REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=copy.parent, env=environment, capture_output=True, text=True, timeout=60
    )


def spoil(package: Path, how: str) -> None:
    if how == "a declaration has changed":
        path = package / "api" / "heartbeat.py"
        path.write_text(path.read_text().replace("generation_id: int = int32", "generation_id: int = int16"))
    elif how == "a declaration is new":
        text = (package / "api" / "heartbeat.py").read_text()
        (package / "api" / "heart.py").write_text(text.replace("Heartbeat", "Heart"))
    elif how == "a declaration is gone":
        (package / "api" / "elect_leaders.py").unlink()
    elif how == "the generator has changed":
        path = package / "layout" / "blobs.py"
        path.write_text(path.read_text().replace("beyond", "behind"))
    elif how == "generating was interrupted":
        (package / "generated" / "digest.txt").write_text("")
    else:
        (package / "generated" / "digest.txt").unlink()


STALE, MISSING = "are stale", "have not been generated"
SPOILT = {
    "a declaration has changed": STALE,
    "a declaration is new": STALE,
    "a declaration is gone": STALE,
    "the generator has changed": STALE,
    "generating was interrupted": STALE,
    "there are none": MISSING,
}


@pytest.mark.interpreted
@pytest.mark.parametrize("how", SPOILT)
def test_stale_modules_are_never_used(copy: Path, how: str) -> None:
    spoil(copy, how)
    for module in ("kafka_wire.generated.heartbeat", "kafka_wire.records.keys"):
        done = run(copy, "-c", f"import {module}")
        assert done.returncode == 1
        assert SPOILT[how] in done.stderr.splitlines()[-1]
    served = run(copy, "-m", "coordinatord", "serve")
    assert (served.returncode, served.stdout) == (1, "")
    (sentence,) = served.stderr.splitlines()
    assert sentence == (
        f"coordinatord: The codecs in {copy}/generated {SPOILT[how]}"
        + (": a declaration or the generator has changed since they were generated" if SPOILT[how] is STALE else "")
        + ". Run `python -m kafka_wire generate`; `make` does so by itself."
    )


def test_pytest_says_so_before_the_first_test(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(fresh, "stored", lambda: "of others")
    with pytest.raises(pytest.exit.Exception, match="are stale"):
        conftest.pytest_configure(request.config)


@pytest.mark.interpreted
def test_generating_mends_them(copy: Path) -> None:
    for how in ("a declaration has changed", "a declaration is new", "a declaration is gone"):
        spoil(copy, how)
    generated = copy / "generated"
    before = {path.name: path.stat().st_mtime_ns for path in generated.glob("*.py")}
    done = run(copy, "-m", "kafka_wire", "generate")
    assert (done.returncode, done.stderr) == (0, "")
    after = {path.name: path.stat().st_mtime_ns for path in generated.glob("*.py")}
    assert after.keys() - before.keys() == {"heart.py"}
    assert before.keys() - after.keys() == {"elect_leaders.py"}
    assert {name for name in before.keys() & after.keys() if before[name] != after[name]} == {
        "heartbeat.py",
        "versions.py",
    }
    assert "unpack_hh" in (generated / "heartbeat.py").read_text()
    assert run(copy, "-c", "import kafka_wire.records.keys, kafka_wire.generated.heart").returncode == 0
    again = run(copy, "-m", "kafka_wire", "generate")
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.interpreted
def test_another_change_in_a_folder_of_declarations_leaves_them_fresh(copy: Path) -> None:
    path = copy / "records" / "batch.py"
    path.write_text(path.read_text() + "\n# a comment\n")
    assert run(copy, "-c", "import kafka_wire.generated.heartbeat").returncode == 0


# --- what the daemon loads --------------------------------------------------------------------------------------------

LOADED = """
import sys
import coordinatord.cli.serve, coordinatord.server.daemon.process
from kafka_wire import registry
for api_key in registry.API_NAMES:
    for version in registry.versions_of(api_key):
        codec = registry.codec(api_key, version)
        codec.encode_request, codec.decode_response
for name in ("construct", "kafka_wire.layout", "kafka_wire.generate", "kafka_wire.reference"):
    assert name not in sys.modules, name
print(sum(name.startswith("kafka_wire.generated.") for name in sys.modules))
"""


def test_a_daemon_imports_no_construct() -> None:
    """Nor the generator, when all codecs are in use."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= len(registry.API_NAMES)


def test_no_source_is_made_at_run_time() -> None:
    """Neither here nor in what was generated, which can be compiled therefore."""
    found = [
        f"{path.relative_to(fresh.PACKAGE)}:{node.lineno} {node.func.id}"
        for path in fresh.PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "eval", "compile")
    ]
    assert found == []
