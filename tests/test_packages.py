"""The files of an installation that are not modules."""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement

from kafka_wire import fresh
from tests.daemon import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
WHERE = [REPOSITORY / folder for folder in PROJECT["tool"]["setuptools"]["packages"]["find"]["where"]]


@pytest.mark.parametrize("package", ["coordinatord", "kafka_wire", "pyspark_consumer_offsets"])
def test_a_package_says_that_it_has_types(package: str) -> None:
    """mypy ignores the annotations of an installed package without this file."""
    [directory] = [folder / package for folder in WHERE if (folder / package / "__init__.py").exists()]
    assert (directory / "py.typed").read_bytes() == b""
    assert PROJECT["tool"]["setuptools"]["package-data"][package][0] == "py.typed"


def test_the_build_needs_what_generates_the_codecs() -> None:
    """setup.py imports construct; which one is said once more for the running package."""
    (construct,) = [each for each in PROJECT["project"]["dependencies"] if each.startswith("construct")]
    assert construct in PROJECT["build-system"]["requires"]
    assert PROJECT["tool"]["setuptools"]["package-data"]["kafka_wire.generated"] == [fresh.DIGEST.name]


def test_a_release_has_compiled_wheels_for_each_python_that_is_named() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [each.removeprefix(prefix) for each in PROJECT["project"]["classifiers"] if each.startswith(prefix)]
    assert PROJECT["tool"]["cibuildwheel"]["build"] == [f"cp3{minor}-*" for minor in named]


WHAT_SECURITY_NEEDS = {"cffi", "idna", "pycparser"}
"""By way of cryptography and trustme."""


def test_the_image_installs_what_we_need_by_hash() -> None:
    """Each dependency in one version of those that pyproject.toml allows, and what they need; all with hashes."""
    text = (REPOSITORY / "deploy" / "requirements.txt").read_text().replace("\\\n", " ")
    pinned = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, _, rest = line.partition("==")
        version, *hashes = rest.split("--hash=sha256:")
        pinned[name] = version.split(";")[0].strip()
        assert hashes, name
        assert all(len(each.strip()) == 64 for each in hashes), name
    asked = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["security"]]
    wanted = {each.name.lower(): each.specifier for each in map(Requirement, asked)}
    assert set(pinned) == set(wanted) | WHAT_SECURITY_NEEDS
    for name, specifier in wanted.items():
        assert specifier.contains(pinned[name]), f"{name} {pinned[name]} is not {specifier}"
