"""Kafka's own message definitions, read from the jars: JSON with // comments, one file per message."""

from __future__ import annotations

import functools
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka_wire.schema import NONE, ZERO_UUID, Versions

JARS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-metadata",
)
FOLDERS = ("common/message/", "common/metadata/")

_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

ZEROS: Mapping[str, Any] = {
    "bool": False, "int8": 0, "int16": 0, "uint16": 0, "uint32": 0, "int32": 0, "int64": 0, "float64": 0.0,
    "string": "", "bytes": b"", "uuid": ZERO_UUID, "records": None,
}  # fmt: skip
"""What a field holds whose definition names no default."""


@dataclass(frozen=True, slots=True)
class KafkaField:
    """One field as Kafka defines it. `type` is written as in the definition ("[]int32"); `fields` is a struct's."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any
    fields: tuple[KafkaField, ...] | None


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """One definition. `versions` are those that a broker serves by default: without a version marked unstable."""

    name: str
    api_key: int | None
    versions: Versions
    unstable: bool
    flexible: Versions
    fields: tuple[KafkaField, ...]


def strip_comments(text: str) -> str:
    """JSON without // comments; two slashes within a string stay."""
    return _STRING_OR_COMMENT.sub(lambda match: match.group(1) or "", text)


def snake_case(name: str) -> str:
    """GroupInstanceId -> group_instance_id."""
    return _WORD_START.sub("_", name).lower()


@functools.cache
def definitions(libs: Path) -> dict[str, KafkaMessage]:
    """All definitions of the jars in `libs`, by name."""
    found = {}
    for jar in JARS:
        (path,) = libs.glob(f"{jar}-[0-9]*.jar")
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith(FOLDERS) and name.endswith(".json"):
                    raw = json.loads(strip_comments(archive.read(name).decode()))
                    # The two coordinators share names of records that no message of ours has; the first jar wins.
                    found.setdefault(raw["name"], _message(raw))
    return {name: _without_unstable(message, found) for name, message in found.items()}


def _without_unstable(message: KafkaMessage, messages: Mapping[str, KafkaMessage]) -> KafkaMessage:
    """A request alone says that its latest version is unstable; its response's is so too, and neither is served."""
    request = messages.get(message.name.removesuffix("Response") + "Request", message)
    if not request.unstable:
        return message
    return replace(message, versions=Versions(message.versions.first, message.versions.last - 1))


def _message(raw: dict[str, Any]) -> KafkaMessage:
    common = {struct["name"]: struct for struct in raw.get("commonStructs", [])}
    return KafkaMessage(
        name=raw["name"],
        api_key=raw.get("apiKey"),
        versions=Versions.parse(raw["validVersions"]),
        unstable=bool(raw.get("latestVersionUnstable", False)),
        flexible=Versions.parse(raw.get("flexibleVersions", "none")),
        fields=tuple(_field(field, common) for field in raw.get("fields", ())),
    )


def _field(raw: dict[str, Any], common: dict[str, Any]) -> KafkaField:
    type_ = raw["type"]
    struct_name = type_.removeprefix("[]")
    inner = raw.get("fields")
    if inner is None and struct_name in common:
        inner = common[struct_name]["fields"]
    return KafkaField(
        name=snake_case(raw["name"]),
        type=type_,
        versions=Versions.parse(raw.get("versions") or raw.get("taggedVersions", "none")),
        nullable=Versions.parse(raw["nullableVersions"]) if "nullableVersions" in raw else NONE,
        tagged=Versions.parse(raw["taggedVersions"]) if "taggedVersions" in raw else NONE,
        tag=raw.get("tag", -1),
        default=_default(type_, raw.get("default"), "default" in raw),
        fields=None if inner is None else tuple(_field(field, common) for field in inner),
    )


def _default(type_: str, raw: Any, given: bool) -> Any:
    """The default as our declarations hold it; of a struct or an array the text "empty", or None.

    A default of null without quotes is none at all to Kafka's generator: the text "null" is what makes one.
    """
    given = given and raw is not None
    if given and raw == "null":
        return None
    if type_ not in ZEROS:
        return "empty"
    if not given or raw == "":
        return ZEROS[type_]
    if type_ == "bool":
        return raw in (True, "true")
    if type_ == "string":
        return raw
    return float(raw) if type_ == "float64" else int(str(raw), 0)
