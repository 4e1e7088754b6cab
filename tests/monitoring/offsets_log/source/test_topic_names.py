"""Topics by id, from directories, and what is kept of it."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.topic_names import (
    FILE,
    keep_names,
    names_from_broker,
    names_in_directories,
    read_names,
)
from tests.daemon import Daemon


def directory(path: Path, text: str | None) -> None:
    path.mkdir(parents=True)
    if text is not None:
        (path / "partition.metadata").write_text(text)


def test_partition_metadata(tmp_path: Path) -> None:
    one, other = ("NipRrlXqTVSe_zmRa7byfA", "yjaWdQwkQ-qKXtRWtIaNHw")
    directory(tmp_path / "orders-0", f"version: 0\ntopic_id: {one}\n")
    directory(tmp_path / "orders-1", f"version: 0\ntopic_id: {one}\n")
    directory(tmp_path / "with-1-dash-0", f"version: 0\ntopic_id: {other}\n")
    directory(tmp_path / "older-0", None)
    directory(tmp_path / "newer-0", f"version: 1\ntopic_id: {other}\n")
    directory(tmp_path / "damaged-0", "\x00\xff")
    names = names_in_directories([str(tmp_path), str(tmp_path / "nowhere"), str(tmp_path / "orders-0")])
    assert names == {one: "orders", other: "with-1-dash"}


def test_what_was_found_out_is_kept(tmp_path: Path) -> None:
    assert read_names(tmp_path) == {}
    keep_names(tmp_path, {"A": "a", "B": "b"})
    keep_names(tmp_path, {"C": "c"})
    assert read_names(tmp_path) == {"A": "a", "B": "b", "C": "c"}
    (tmp_path / FILE).write_text("{")
    with pytest.raises(SourceError, match="remove it"):
        read_names(tmp_path)


def test_of_a_broker(daemon: Daemon) -> None:
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    admin.create_topics([NewTopic("orders", 2, 1)])
    (topic,) = admin.describe_topics(["orders"])
    admin.close()
    text = base64.urlsafe_b64encode(uuid.UUID(str(topic["topic_id"])).bytes).decode().rstrip("=")
    assert names_from_broker(daemon.bootstrap, {})[text] == "orders"


def test_a_broker_that_is_not_there() -> None:
    with pytest.raises(SourceError, match=r"^no broker answers at 127\.0\.0\.1:1: "):
        names_from_broker("127.0.0.1:1", {"bootstrap_timeout_ms": 100})
