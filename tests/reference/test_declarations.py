"""Our declarations against Kafka's: names, order, types, versions, nullability, tags and defaults of every field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_wire.schema import Field, Type, Versions, schema_of
from tests.protocol.messages import all_messages, kafkas
from tests.reference.definitions import KafkaField, KafkaMessage, definitions

pytestmark = pytest.mark.reference

SUBSETS: dict[str, tuple[str, str]] = {}
"""Messages that we declare for fewer versions than Kafka serves: name -> (our versions, why)."""

RENAMED = {("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id"}
"""Fields that have another name here: (message, Kafka's name) -> ours."""

RENAMED_STRUCTS = {"AlterClientQuotasResponse.entries": ("EntryData", "EntryResult")}
"""Structs that have the name of another one of the same module: the path -> Kafka's name and ours."""

GROUP_APIS = ("FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "OffsetCommit", "OffsetFetch",
              "DescribeGroups", "ListGroups", "DeleteGroups", "OffsetDelete")  # fmt: skip


def within(versions: Versions, valid: Versions) -> tuple[int, ...]:
    """The versions of a range that a message has at all: 0+ and 4+ say the same of a message that begins at 4."""
    return tuple(version for version in valid if version in versions)


@pytest.mark.parametrize("cls", kafkas(), ids=lambda cls: cls.__name__)
def test_a_declaration_is_kafkas(cls: type[Any], kafka_libs: Path) -> None:
    schema = schema_of(cls)
    kafka = definitions(kafka_libs)[schema.name]
    names = [RENAMED.get((schema.name, field.name), field.name) for field in kafka.fields]
    kafka = replace(
        kafka, fields=tuple(replace(field, name=name) for field, name in zip(kafka.fields, names, strict=True))
    )
    assert schema.api_key == kafka.api_key
    check_versions(schema.name, schema.versions, kafka)
    assert within(schema.flexible, schema.versions) == within(kafka.flexible, schema.versions)
    assert differences(schema.name, schema.fields, kafka.fields, schema.versions) == []


def check_versions(name: str, ours: Versions, kafka: KafkaMessage) -> None:
    if name in SUBSETS:
        text, _reason = SUBSETS[name]
        assert str(ours) == text
        assert ours != kafka.versions, f"{name} is complete: take it off the list of subsets"
        assert set(ours) <= set(kafka.versions)
    else:
        assert ours == kafka.versions, f"{name}: {ours} is declared, Kafka serves {kafka.versions}"


def differences(path: str, ours: tuple[Field, ...], kafkas: tuple[KafkaField, ...], valid: Versions) -> list[str]:
    """Every way in which fields differ, in words; fields that no valid version has are left out on both sides."""
    ours = tuple(field for field in ours if within(field.versions, valid))
    kafkas = tuple(field for field in kafkas if within(field.versions, valid))
    our_names, kafka_names = [field.name for field in ours], [field.name for field in kafkas]
    if our_names != kafka_names:
        return [f"{path} has the fields {our_names}, Kafka's has {kafka_names}"]
    found = []
    for field, kafka in zip(ours, kafkas, strict=True):
        here = f"{path}.{field.name}"
        pairs: dict[str, tuple[Any, Any]] = {
            "type": (written(field.type), kafka.type.replace(*RENAMED_STRUCTS.get(here, ("", "")))),
            "versions": (within(field.versions, valid), within(kafka.versions, valid)),
            "nullable versions": (within(field.nullable, valid), within(kafka.nullable, valid)),
            "tagged versions": (within(field.tagged, valid), within(kafka.tagged, valid)),
            "default": (comparable(field), kafka.default),
        }
        if within(kafka.tagged, valid):
            pairs["tag"] = (field.tag, kafka.tag)
        found += [f"{here}: {what} {mine!r}, Kafka's {his!r}" for what, (mine, his) in pairs.items() if mine != his]
        inner = (field.type.element or field.type).struct
        if inner is not None:
            assert kafka.fields is not None, here
            # A struct exists where its field does: 0+ and 1+ say the same within a field that begins at 1.
            around = Versions(max(valid.first, kafka.versions.first), min(valid.last, kafka.versions.last))
            found += differences(here, schema_of(inner).fields, kafka.fields, around)
    return found


def written(type_: Type) -> str:
    """A type as Kafka's definitions write it."""
    if type_.element is not None:
        return "[]" + written(type_.element)
    return schema_of(type_.struct).name if type_.struct is not None else type_.kind


def comparable(field: Field) -> Any:
    """The default of a field, "empty" for an array without elements or a struct of defaults."""
    default = field.fresh_default()
    if field.type.kind == "array":
        return "empty" if default == [] else default
    if field.type.struct is not None and default is not None:
        return "empty" if default == field.type.struct() else default
    return default


@pytest.mark.parametrize("api", GROUP_APIS)
def test_the_group_apis_are_there_in_every_version(api: str, kafka_libs: Path) -> None:
    names = {cls.__name__ for cls in all_messages()}
    assert {f"{api}Request", f"{api}Response"} <= names
    assert SUBSETS.keys().isdisjoint({f"{api}Request", f"{api}Response"})


def test_the_comparison_sees_a_difference(kafka_libs: Path) -> None:
    """The checker itself: a field held against one of another message must give findings of several kinds."""
    kafka = definitions(kafka_libs)["JoinGroupRequest"]
    by_name = {cls.__name__: schema_of(cls) for cls in all_messages()}
    assert differences("x", by_name["SyncGroupRequest"].fields, kafka.fields, kafka.versions) != []
    swapped = (kafka.fields[1], kafka.fields[0], *kafka.fields[2:])
    assert differences("x", by_name["JoinGroupRequest"].fields, swapped, kafka.versions) != []
    later = Versions(kafka.versions.first, kafka.versions.last + 1)
    shifted = [KafkaField(f.name, f.type, f.versions, f.versions, f.tagged, f.tag, f.default, f.fields)
               for f in kafka.fields]  # fmt: skip
    found = differences("x", by_name["JoinGroupRequest"].fields, tuple(shifted), later)
    assert any("nullable versions" in line for line in found)
