"""Ask Kafka's own generated message classes: the Java program beside this file, compiled when a test needs it."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

from protocol.schema import Field, Type, schema_of

SOURCE = Path(__file__).parent / "java" / "MessageCheck.java"
TIMEOUT_S = 300


def ask(libs: Path, questions: list[list[str]]) -> list[list[str]]:
    """Answer all questions in one run of the program; see its head for their form."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{libs}/*", str(SOURCE)]  # a source file instead of a class: java compiles it first
    lines = "".join("\t".join(question) + "\n" for question in questions)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(answers) == len(questions), done.stderr[-4000:]
    return answers


def to_json(message: Any, version: int) -> str:
    """A message as Kafka's JSON converters read it: the fields of this version, in camelCase."""
    return json.dumps(_struct(message, version))


def _struct(message: Any, version: int) -> dict[str, Any]:
    return {
        camel_case(field.name): _value(field.type, getattr(message, field.name), version)
        for field in schema_of(type(message)).fields
        if version in field.versions and not _left_out(field, message, version)
    }


def _left_out(field: Field, message: Any, version: int) -> bool:
    return version in field.tagged and getattr(message, field.name) == field.fresh_default()


def _value(type_: Type, value: Any, version: int) -> Any:
    if value is None:
        return None
    if type_.element is not None:
        return [_value(type_.element, item, version) for item in value]
    if type_.struct is not None:
        return _struct(value, version)
    if type_.kind == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def camel_case(name: str) -> str:
    """group_instance_id -> groupInstanceId."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
