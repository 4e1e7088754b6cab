"""The table of API versions by release against the message definitions of each release's kafka-clients."""

from __future__ import annotations

import json
import zipfile

import pytest

from kafka_wire.releases import RELEASES, ranges_of
from tests.clients.families import toolchains
from tests.reference.definitions import strip_comments

pytestmark = [pytest.mark.reference, pytest.mark.full]

PATCHES = {"3.9": "3.9.1", "4.0": "4.0.1", "4.1": "4.1.1", "4.2": "4.2.0", "4.3": "4.3.1", "4.4": "4.4.0"}


def test_every_release_has_a_jar() -> None:
    assert tuple(PATCHES) == RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_has_the_ranges_of_its_definitions(release: str) -> None:
    (path,) = toolchains.jars(f"org.apache.kafka:kafka-clients:{PATCHES[release]}").glob("kafka-clients-[0-9]*.jar")
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith("Request.json"):
                message = json.loads(strip_comments(archive.read(name).decode()))
                if "broker" in message.get("listeners", ()) and message["validVersions"] != "none":
                    first, _, last = message["validVersions"].partition("-")
                    last_stable = int(last or first) - message.get("latestVersionUnstable", False)
                    if last_stable >= int(first):
                        found[message["apiKey"]] = (int(first), last_stable)
    assert found == ranges_of(release)
