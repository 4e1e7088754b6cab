"""Apache Kafka with its StandardAuthorizer and a user for each principal, who logs in by SASL/PLAIN."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from coordinatord.testing.conform.raw_client import RawClient
from tests.reference.broker import HOST, KafkaBroker, kafka_libs, running_broker
from tests.server.access.cases import PRINCIPALS, SUPER


@contextlib.contextmanager
def secured_kafka(
    directory: Path, users: tuple[str, ...] = tuple(PRINCIPALS), settings: Mapping[str, str] | None = None
) -> Iterator[KafkaBroker]:
    """A broker; each user's password is the name."""
    known = " ".join(f'user_{user}="{user}"' for user in users)
    overrides = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{SUPER}" password="{SUPER}" {known};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{SUPER};User:ANONYMOUS",  # the controller's listener knows nobody
        "auto.create.topics.enable": "true",
        "log.retention.ms": "-1",  # the records are of 1970: retention would remove them half a minute after the start
        "group.coordinator.rebalance.protocols": "classic,consumer",
        **(settings or {}),
    }
    with running_broker(kafka_libs(), directory, overrides) as broker:
        yield broker


def logged_in(port: int) -> Callable[[str], Awaitable[RawClient]]:
    """Connects as a user."""

    async def connect(user: str) -> RawClient:
        client = await RawClient.connect(HOST, port, user)
        handshake = struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", 5) + b"PLAIN"
        token = f"\0{user}\0{user}".encode()
        authenticate = struct.pack(">hhih", 36, 1, 2, -1) + struct.pack(">i", len(token)) + token
        for request in (handshake, authenticate):
            client.link.write(struct.pack(">i", len(request)) + request)
            frame = await client.link.read_frame()
            assert frame is not None, "the broker closed the connection"
            assert frame[4:6] == b"\0\0", frame
        return client

    return connect
