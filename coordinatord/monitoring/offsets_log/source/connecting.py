"""Connections to a broker through kafka-python, and their errors in one sentence.

kafka-python tries to bootstrap until its time is up and then reports a failure; the reason is only in its log. So this
module keeps each attempt's failure. A failure that no other attempt changes (credentials, certificates, settings) ends
the wait at once: kafka-python has a place for such failures (`_auth_failures`) but never fills it (3.0.12). Nor does it
read a response that arrives together with the end of its connection, which is how Kafka rejects credentials.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka.errors import (
    IllegalSaslStateError,
    InvalidReceiveError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from coordinatord.monitoring.offsets_log.source import shared_connections
from coordinatord.monitoring.offsets_log.source.segments import Refused, SourceError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
#: kafka-python's own errors, and Python's for an invalid certificate file: a retry does not help.
_LASTING = (
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
    InvalidReceiveError,
    OSError,
    ValueError,
)
#: For these, the last failure of a connection is more precise.
_NO_REASON = (KafkaTimeoutError, NodeNotReadyError)
#: kafka-python's words for an attempt to connect that had no time left.
_TOO_LATE = "Connection timed out"
#: OpenSSL's words.
_LASTING_WORDS = ("certificate verify failed", "wrong version number", "alert")
_REFUSES = ("ECONNREFUSED", "DNS")
#: An address that has closed this many connections without serving one will not start to serve: it needs TLS, for
#: example.
CLOSED_OFTEN = 4
REQUEST_TIMEOUT_MS = 30_000
DEFAULTS = {"reconnect_backoff_max_ms": 1000, "receive_message_max_bytes": 100_000_000}
"""Settings that differ from those of kafka-python's connections; a Fetch response has up to 50 MiB of records."""


class Connections(KafkaConnectionManager):
    """kafka-python's manager, which also stores the reason of the last failed connection."""

    def __init__(self, net: Any, **configs: Any) -> None:
        self.why: Exception | None = None
        self.has_connected = False
        self._lasting: dict[Any, Exception] = {}
        super().__init__(net, **configs)
        self.net = net

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Return a node's response; None for any node. Raises KafkaError."""
        return self.run(self.wait_for, self.send(request, node_id=node_id), REQUEST_TIMEOUT_MS)

    def disconnect(self) -> None:
        """Close the connections and stop their thread."""
        self.close()
        self.net.close()

    def get_connection(self, node_id: Any, *arguments: Any, **options: Any) -> Any:
        connection = super().get_connection(node_id, *arguments, **options)
        connection.init_future.add_callback(self._connected)
        connection.close_future.add_errback(lambda error: self._failed(node_id, error))
        return connection

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        if node_id in self._lasting:
            raise self._lasting[node_id]

    def _connected(self, _: object) -> None:
        self.has_connected = True

    def _failed(self, node_id: Any, error: Exception) -> None:
        # Timeouts are the least precise: the very last attempt may have had no time left to be refused.
        if self.why is None or not (isinstance(error, RequestTimedOutError) or _TOO_LATE in str(error)):
            self.why = error
        if self.is_lasting(error):
            self._lasting[node_id] = error

    @staticmethod
    def is_lasting(error: Exception) -> bool:
        """Return whether another attempt would fail, too."""
        if isinstance(error, KafkaConnectionError):
            return any(word in str(error) for word in _LASTING_WORDS)
        return isinstance(error, _LASTING) and not isinstance(error, ConnectionError | TimeoutError)

    def tell(self, error: Exception) -> str:
        """Return the error in a few words."""
        if isinstance(error, _NO_REASON) and self.why is not None:
            error = self.why
        text = _text(error)
        return "connection refused" if "ECONNREFUSED" in text else text

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        receive = transport._sock_recv

        def receive_all() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the next call reports the end again

        transport._sock_recv = receive_all
        return transport


class AtAPrompt(Connections):
    """Connections for an interactive command. The attempt ends at once if all addresses refuse connections or do not
    resolve.
    """

    def __init__(self, net: Any, **configs: Any) -> None:
        super().__init__(net, **configs)
        self._addresses = len(configs["bootstrap_servers"])
        self._refused: set[Any] = set()
        self._failures = 0

    def _failed(self, node_id: Any, error: Exception) -> None:
        super()._failed(node_id, error)
        self._failures += 1
        if any(word in str(error) for word in _REFUSES):
            self._refused.add(node_id)
        if not self.has_connected and (
            len(self._refused) == self._addresses or self._failures == CLOSED_OFTEN * self._addresses
        ):
            self._lasting[node_id] = error


@contextmanager
def connected(
    bootstrap: str, settings: Mapping[str, Any], patience_s: float, kind: type[Connections] = Connections
) -> Iterator[Connections]:
    """Return connections to a cluster.

    Raises SourceError if no broker responds within `patience_s` seconds, or at once where another attempt cannot
    succeed, and for each KafkaError of the block.
    """
    opened = shared_connections.opened.get()
    key = repr((bootstrap, sorted(settings.items())))
    connections = None if opened is None else opened.get(key)
    if connections is None:
        connections = connect(bootstrap, settings, patience_s, kind)
        if opened is not None:
            opened[key] = connections
    try:
        yield connections
    except KafkaError as error:
        raise SourceError(sentence(bootstrap, settings, error, connections)) from None
    finally:
        if opened is None:
            connections.disconnect()


def connect(
    bootstrap: str, settings: Mapping[str, Any], patience_s: float, kind: type[Connections] = Connections
) -> Connections:
    """Return connections to a cluster, which a broker has answered. Raises SourceError."""
    check(settings)
    configs = {**DEFAULTS, **settings, "bootstrap_servers": bootstrap.split(",")}
    timeout_ms = configs.pop("bootstrap_timeout_ms", round(patience_s * 1000))
    connections = None
    try:
        unknown = configs.keys() - KafkaConnectionManager.DEFAULT_CONFIG.keys()
        if unknown:
            raise KafkaConfigurationError(f"Unrecognized configs: {', '.join(sorted(unknown))}")
        net = NetworkSelector(**configs)
        connections = kind(net, **configs)
        net.start()
        connections.bootstrap(timeout_ms)
    except (KafkaError, AssertionError, ValueError, OSError) as error:
        why: Exception = error
        if connections is not None:
            connections.disconnect()
            why = connections.why or error
        refused = Refused if any(words in str(why) for words in _REFUSES) else SourceError
        raise refused(sentence(bootstrap, settings, error, connections)) from None
    return connections


def check(settings: Mapping[str, Any]) -> None:
    """Check the settings as far as possible without a broker. Raises SourceError."""
    protocol = settings.get("security_protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise SourceError(f"kafka.security_protocol={protocol}: one of {', '.join(PROTOCOLS)} is wanted")
    for name in FILES:
        path = settings.get(name)
        if path is not None and not os.path.isfile(str(path)):
            raise SourceError(
                f"kafka.{name}={path}: there is no such file here (Spark's workers need it at the same place)"
            )
    for name in settings:
        if name.startswith("sasl_") and settings[name] is not None and not str(protocol).startswith("SASL_"):
            raise SourceError(f"kafka.{name} is for SASL: set kafka.security_protocol to SASL_SSL or SASL_PLAINTEXT")
    if str(protocol).startswith("SASL_") and not settings.get("sasl_mechanism"):
        raise SourceError(f"kafka.security_protocol={protocol} wants kafka.sasl_mechanism, too: SCRAM-SHA-512, PLAIN …")
    if str(settings.get("sasl_mechanism", "")).startswith(("SCRAM", "PLAIN")):
        for name in ("sasl_plain_username", "sasl_plain_password"):
            if settings.get(name) is None:
                raise SourceError(f"kafka.sasl_mechanism={settings['sasl_mechanism']} wants kafka.{name}, too")


def sentence(bootstrap: str, settings: Mapping[str, Any], error: Exception, manager: Connections | None) -> str:
    """Return why there is no connection, and what to check. Never contains a secret setting."""
    if isinstance(error, _NO_REASON) and manager is not None and manager.why is not None:
        error = manager.why
    text = _text(error)
    protocol = settings.get("security_protocol", "PLAINTEXT")
    mechanism = settings.get("sasl_mechanism")
    for matches, says in _SENTENCES:
        if matches(error, text):
            return says.format(
                bootstrap=bootstrap,
                user=settings.get("sasl_plain_username"),
                mechanism=mechanism,
                protocol=protocol,
                cafile=settings.get("ssl_cafile") or "none, so this machine's own authorities",
                text=text,
            )
    if isinstance(error, RequestTimedOutError) and (manager is None or not manager.has_connected):
        return f"{bootstrap} does not answer as a Kafka broker does: is that the right host and port? ({text})"
    if "socket disconnected" in text or "reset by peer" in text:
        if manager is None or not manager.has_connected:
            return (
                f"{bootstrap} closes the connection: a port that wants TLS does so (kafka.security_protocol=SASL_SSL)"
            )
        if not str(protocol).startswith("SASL"):
            wanted = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
            return (
                f"{bootstrap} closes the connection: a port that wants SASL does so (kafka.security_protocol={wanted})"
            )
    return f"cannot connect to {bootstrap}: {text}"


def _text(error: Exception) -> str:
    """Return the text of a kafka-python error, which starts with its name, sometimes twice."""
    text = str(error).replace("\n", " ").strip()
    name = type(error).__name__
    while name in text.split(":")[0]:
        text = text.partition(name)[2].lstrip(": ")
    return text or name


def _contains(*words: str) -> Callable[[Exception, str], bool]:
    return lambda _error, text: any(word in text for word in words)


def _is(*kinds: type[Exception]) -> Callable[[Exception, str], bool]:
    return lambda error, _text: isinstance(error, kinds)


_SENTENCES: tuple[tuple[Callable[[Exception, str], bool], str], ...] = (
    (
        _is(SaslAuthenticationFailedError),
        "{bootstrap} does not let the user {user} in with SASL {mechanism}: the name or the password is wrong ({text})",
    ),
    (_is(UnsupportedSaslMechanismError), "{bootstrap} does not offer kafka.sasl_mechanism={mechanism} ({text})"),
    (
        _is(IllegalSaslStateError),
        "{bootstrap} does not take SASL, which kafka.security_protocol={protocol} wants: a port without users answers "
        "so (PLAINTEXT or SSL)",
    ),
    (
        _contains("IP address mismatch", "Hostname mismatch", "doesn't match"),
        "the certificate of {bootstrap} is for another name ({text}): connect to a name that it has",
    ),
    (
        _contains("certificate verify failed"),
        "the certificate of {bootstrap} is not trusted ({text}): give the authority that signed it with "
        "kafka.ssl_cafile, which is {cafile} now",
    ),
    (
        _contains("wrong version number", "UNEXPECTED_EOF", "record layer failure"),
        "{bootstrap} does not answer in TLS, as kafka.security_protocol={protocol} wants it: is that the right port?",
    ),
    (
        _contains("certificate required", "bad certificate", "unknown ca"),
        "{bootstrap} does not accept this client's certificate: see kafka.ssl_certfile and kafka.ssl_keyfile ({text})",
    ),
    (
        _is(ssl.SSLError),
        "a file of kafka.ssl_cafile, kafka.ssl_certfile or kafka.ssl_keyfile is not what it should be ({text})",
    ),
    (
        _is(InvalidReceiveError),
        "{bootstrap} does not answer as a broker does with kafka.security_protocol={protocol} ({text}): a port that "
        "wants TLS does so (SSL or SASL_SSL)",
    ),
    (_contains("ECONNREFUSED", "Connection refused"), "no broker answers at {bootstrap}: connection refused"),
    (_contains(_TOO_LATE, "ETIMEDOUT"), "no broker answers at {bootstrap}: the connection timed out"),
    (_contains("DNS"), "no broker answers at {bootstrap}: there is no host of that name"),
    (_is(KafkaConfigurationError), "kafka-python has no such setting: {text}"),
)
