"""Files and cluster state that one of several leading nodes shares with the others, at its start and while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from coordinatord.base.config import Settings
from coordinatord.broker.log import leader_epoch_cache
from coordinatord.broker.log.checkpoint import uuid_bytes
from coordinatord.broker.log.data_dir import DataDirectory, random_id
from coordinatord.broker.log.errors import LogError
from coordinatord.broker.topics import catalogue_file
from coordinatord.broker.topics.catalogue import internal_configs
from coordinatord.broker.topics.catalogue_file import Content, Entry
from coordinatord.broker.topics.group_configs import FILE as GROUPS
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.broker.topics.shared_catalogue import SharedCatalogue
from coordinatord.server.postgresql.serving_node import ServingNode
from coordinatord.server.postgresql.sharing import LOOK_S, Looked, SharedFiles, holders
from coordinatord.server.postgresql.store import EPOCHS
from coordinatord.transport.cluster.partition_slots import SeatedNodes


def share(shared: SharedFiles, settings: Settings, data: DataDirectory, holds: Callable[[], bool]) -> None:
    """Fetch the shared files. The first node of a cluster creates the catalogue. Retries while `holds` returns True
    (this node has its lease). Raises Away.
    """
    while True:
        try:
            with shared.lock():
                _make_catalogue(shared, settings, data)
            return
        except OSError:
            if not holds():
                raise
            time.sleep(LOOK_S)


def epoch_of_term_0(files: Mapping[str, bytes]) -> int:
    """Return the highest leader epoch of the data directory that was loaded into the database, 0 without one. A node
    appends with the sum of this epoch and its term: the term is known at the take-over, and all nodes have both values.
    """
    loaded = [
        leader_epoch_cache.parsed(content.decode(), name) for name, content in files.items() if name.startswith(EPOCHS)
    ]
    return max([known[-1][0] for known in loaded], default=0)


def _make_catalogue(shared: SharedFiles, settings: Settings, data: DataDirectory) -> None:
    path = f"{data.path}/{catalogue_file.FILE}"
    found = catalogue_file.read(data.disk, path)
    if OFFSETS_TOPIC in found.topics:
        return
    count = settings.offsets_topic_num_partitions
    entry = Entry(uuid_bytes(random_id()), count, internal_configs(settings, OFFSETS_TOPIC))
    content = Content({**found.topics, OFFSETS_TOPIC: entry}, found.deleting, found.change + 1)
    catalogue_file.write(data.disk, path, content)
    shared.changed(content.change)


def follow(shared: SharedFiles, daemon: ServingNode) -> None:
    """Apply the other nodes' changes to `daemon`, and update which node has which seat."""
    catalogue, nodes = daemon.topics.catalogue, daemon.nodes
    assert isinstance(catalogue, SharedCatalogue)
    assert isinstance(nodes, SeatedNodes)

    def take_over(looked: Looked) -> None:
        try:
            shared.nodes = looked.nodes  # together with the leaders: responses to clients must be consistent
            if nodes.seat(holders(looked.nodes)):
                catalogue.led_by_others()
            catalogue.refresh()
            daemon.metadata.refresh()
            if GROUPS in looked.files:
                daemon.topics.group_configs.refresh()
        except (LogError, OSError) as error:
            daemon.log_failed(error)

    shared.begin(
        lambda looked: daemon.loop.call_soon_threadsafe(take_over, looked),
        lambda error: daemon.loop.call_soon_threadsafe(daemon.log_failed, error),
    )
