"""A cluster, through the connections of kafka-python and with the messages of kafka_wire.

kafka-python has TLS, SASL and reconnecting; its admin client raises at the first item that fails and lacks
ConsumerGroupDescribe. So this module makes the requests, and kafka-python's connections carry them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka.errors import KafkaError

from coordinatord.monitoring.offsets_log.source.connecting import AtAPrompt, Connections, connect, sentence
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.client import ApiVersions, codec_of, request_frame
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.registry import LARGEST
from kafka_wire.schema import schema_of

CONNECT_S = 10.0
PATIENCE_S = 15.0
"""Longest wait in seconds for a coordinator or leader that is not there yet."""
RETRY_S = 0.25
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
"""Errors that may have passed at another attempt."""

ERROR_TEXTS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this user may not do that with the group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this user may not do that with the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this user may not do that in the cluster",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group is subscribed to the topic",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has no such member",
    ErrorCode.FENCED_INSTANCE_ID: "another process has this group.instance.id now",
    ErrorCode.LEADER_NOT_AVAILABLE: "there is no leader now",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "that is no name for a topic",
    ErrorCode.TOPIC_DELETION_DISABLED: "the cluster does not delete topics (delete.topic.enable)",
}

Found = TypeVar("Found")


class AdminError(Exception):
    """The cluster cannot be reached, or rejects the request. The message has no full stop."""


class Unreachable(AdminError):
    """No broker responds, or none authenticates the user."""


def error_text(code: int, message: str | None = None) -> str:
    """Return an error code in words, with the broker's message."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return message or f"error {code}"
    return ERROR_TEXTS.get(known) or (f"{known.name}: {message}" if message else known.name)


class _Asked:
    """One of our messages with the interface that kafka-python's connections need; `parse_header` and `decode` are for
    its response.
    """

    name = "request"

    def __init__(self, message: Any, api_version: int) -> None:
        self._message = message
        self._codec = codec_of(message, api_version)
        self.API_KEY = self.api_key = self._codec.api_key
        self.API_VERSION = self.api_version = api_version
        self.correlation_id = 0
        self._client_id = ""

    @property
    def header(self) -> _Asked:
        return self

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self.correlation_id, self._client_id = correlation_id, client_id

    def encode(self, framed: bool, header: bool) -> bytes:
        assert framed
        assert header
        return request_frame(self._message, self.api_version, self.correlation_id, self._client_id)

    def get_response_class(self) -> _Asked:
        return self

    def parse_header(self, buffer: Any) -> _Head:
        return _Head(int.from_bytes(buffer.read(4), "big"))

    def decode(self, buffer: Any) -> Any:
        data = bytes(buffer.read())
        return self._codec.decode_response(data, int(self._codec.response_header_flexible), len(data))


class _Head:
    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id


PROPERTIES = {
    "kafka.security_protocol": "security.protocol",
    "kafka.sasl_mechanism": "sasl.mechanism",
    "kafka.sasl_plain_username": "a username in sasl.jaas.config",
    "kafka.sasl_plain_password": "a password in sasl.jaas.config",
    "kafka.ssl_cafile": "ssl.truststore.location",
    "kafka.ssl_certfile": "ssl.keystore.location",
    "kafka.ssl_keyfile": "ssl.keystore.location",
    " (Spark's workers need it at the same place)": "",
}
"""Replacements in the pipeline's messages: its option -> the property of --command-config, or nothing."""


class Cluster:
    """A connected cluster, made by `cluster()`."""

    def __init__(self, connections: Connections, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._connections = connections
        self._versions = ApiVersions(connections.broker_version_data.api_versions)

    def ask(self, message: Any, node_id: int | None = None, newest: int = LARGEST) -> Any:
        """Return the response of a node (None: any) to a request in the newest version that both sides support,
        `newest` at most. Raises AdminError if the cluster has no such request.
        """
        version = self._versions.latest_usable(type(message), newest)
        if version is None:
            raise AdminError(
                f"{self.bootstrap} does not serve {type(message).__name__.removesuffix('Request')} requests"
            )
        try:
            return self._connections.ask(_Asked(message, version), node_id)
        except DecodeError as error:
            raise AdminError(f"{self.bootstrap} sent a response that cannot be decoded: {error}") from None

    def newest(self, request: type[Any]) -> int:
        """Return the newest version of a request that the cluster offers; -1 if it does not."""
        return self._versions.supported.get(schema_of(request).api_key or 0, (0, -1))[1]

    def serves(self, request: type[Any]) -> bool:
        """Return whether the cluster offers a version of this request that kafka_wire supports."""
        return self._versions.latest_usable(request) is not None

    def metadata(self, topics: Sequence[str] | None) -> Any:
        """Return nodes and topics; None requests all topics. No topic is created."""
        wanted = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
        return self.ask(MetadataRequest(wanted, False), newest=12)

    def controller(self) -> int:
        """Return the node that creates and deletes topics."""
        return int(self.metadata([]).controller_id)

    def nodes(self) -> list[int]:
        return sorted(each.node_id for each in self.metadata([]).brokers)

    def by_coordinator(self, groups: Iterable[str]) -> dict[int, list[str]]:
        """Return the groups by the node that coordinates them. Raises AdminError."""
        found: dict[int, list[str]] = {}
        for group in groups:
            found.setdefault(self.coordinator(group), []).append(group)
        return found

    def coordinator(self, group: str) -> int:
        """Return the node that coordinates a group. Raises AdminError."""

        def attempt() -> tuple[int, int]:
            answer = self.ask(FindCoordinatorRequest(group), newest=3)
            return answer.error_code, answer.node_id

        return patiently(attempt, f"group {group}")


def patiently(attempt: Callable[[], tuple[int, Found]], what: str | Callable[[], str]) -> Found:
    """Call `attempt` until its error is none of PASSING, for at most PATIENCE_S; return its result. Raises AdminError
    with `what` for an error.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        code, found = attempt()
        if not code:
            return found
        if code not in PASSING or time.monotonic() >= deadline_s:
            raise AdminError(f"{what if isinstance(what, str) else what()}: {error_text(code)}")
        time.sleep(RETRY_S)


@contextmanager
def cluster(bootstrap: str, settings: Mapping[str, Any], patience_s: float = CONNECT_S) -> Iterator[Cluster]:
    """Return the cluster at `bootstrap`; `settings` are kafka-python's. Raises Unreachable if there is none, or the
    connection is lost.
    """
    log = logging.getLogger("kafka")
    log.addHandler(logging.NullHandler())
    log.propagate = False  # our sentences contain its messages
    try:
        connections = connect(bootstrap, {"client_id": "coordinatord", **settings}, patience_s, AtAPrompt)
    except SourceError as error:
        raise Unreachable(_in_properties(str(error).rstrip("."))) from None
    try:
        yield Cluster(connections, bootstrap)
    except KafkaError as error:
        raise Unreachable(_in_properties(sentence(bootstrap, settings, error, connections))) from None
    finally:
        connections.disconnect()


def _in_properties(text: str) -> str:
    for name, said_here in PROPERTIES.items():
        text = text.replace(name, said_here)
    return text
