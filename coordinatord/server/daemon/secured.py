"""Listeners with TLS or SASL. A daemon whose listeners are all PLAINTEXT does not import this module."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from coordinatord.base.clocks.timers import Timers
from coordinatord.base.config import Listener, Settings
from coordinatord.base.config.security import is_overridden
from coordinatord.base.observe.metrics import Metrics
from coordinatord.server.daemon.scram_users import ScramUsers
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.handshakes import Handshakes
from coordinatord.transport.net.sasl_gate import SaslGate
from coordinatord.transport.net.server_context import ServerContext
from coordinatord.transport.security import MISSING, SecurityError
from coordinatord.transport.security.mapping_rules import InvalidRule, NoMatchingRule, PrincipalMapper
from coordinatord.transport.security.material import Material, made_for
from coordinatord.transport.security.mechanisms import Mechanisms
from coordinatord.transport.security.principal import USER_TYPE, Principal
from coordinatord.transport.security.tls import Tls

Listening = asyncio.Server | Handshakes


class Daemon(Protocol):
    """The attributes of the daemon that a secured listener uses."""

    settings: Settings
    loop: asyncio.AbstractEventLoop
    nodes: Nodes
    door: ServerContext
    connections: Connections
    api_versions: ApiVersions
    metrics: Metrics
    timers: Timers
    scram_users: ScramUsers
    now_ms: Callable[[], int]


class SecuredListeners:
    """The `ServerContext`s of a daemon's listeners, made when a listener's first socket is to be served. Raises
    SecurityError.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._doors: dict[str, ServerContext] = {}
        self._tls: dict[str, Tls] = {}
        self.material: Material | None = made_for(daemon.settings)
        """The keys, certificates and users that test.users made; None without it."""

    async def listen(self, name: str, listening: socket.socket) -> Listening:
        """Serve a bound socket of a listener."""
        daemon = self._daemon
        door = self._doors.get(name) or self._made(name)
        self._write_client_configurations(name)

        def connection() -> Connection:
            return Connection(door, name)

        own = daemon.settings.of_listener(name)
        backlog = daemon.settings.socket_listen_backlog_size
        tls = self._tls.get(name)
        if tls is None:
            return await daemon.loop.create_server(connection, sock=listening, backlog=backlog)
        return Handshakes(
            daemon.loop,
            listening,
            connection,
            tls.context,
            daemon.connections,
            listener=name,
            protocol=daemon.settings.protocols[name],
            timeout_s=own.connections_authentication_timeout_ms / 1000,
            backlog=backlog,
        )

    def _write_client_configurations(self, name: str) -> None:
        """Write clients' configurations for test.users. Raises SecurityError."""
        daemon, material = self._daemon, self.material
        if material is not None and not daemon.nodes.worker:
            nodes = daemon.nodes.alive(name)
            material.write_client_configurations(
                name, ",".join(Listener(name, node.host, node.port).address for node in nodes)
            )

    def _made(self, name: str) -> ServerContext:
        daemon, protocol = self._daemon, self._daemon.settings.protocols[name]
        settings = daemon.settings.of_listener(name)
        if self.material is not None:
            settings = self.material.filled_in(settings)
        admit: Callable[[Any, Any], object] | None = None
        if protocol.endswith("SSL"):
            if protocol == "SASL_SSL" and not is_overridden(
                daemon.settings.listener_overrides, name, "ssl.client.auth"
            ):
                settings = dataclasses.replace(settings, ssl_client_auth="none")
            self._tls[name] = Tls(settings, name, daemon.loop.time)
            admit = None if settings.ssl_client_auth == "none" else by_certificate(settings.ssl_principal_mapping_rules)
        door = daemon.door
        if protocol.startswith("SASL"):
            door = self._gate(name, protocol)
        elif admit is not None:
            door = dataclasses.replace(door, admit=admit)
        self._doors[name] = door
        return door

    def _stored(self, mechanism: str, user: str) -> Any:
        """Return a credential of the metadata log."""
        return self._daemon.scram_users.credentials.find(mechanism, user)

    def _gate(self, name: str, protocol: str) -> ServerContext:
        daemon = self._daemon
        settings = daemon.settings.of_listener(name)
        gate = SaslGate(
            Mechanisms(daemon.settings, name, daemon.loop, self._stored).by_name,
            daemon.api_versions,
            daemon.metrics,
            protocol=protocol,
            delay_ms=daemon.settings.connection_failed_authentication_delay_ms,
            timeout_ms=settings.connections_authentication_timeout_ms,
            alarm=daemon.timers.alarm,
            now_ms=daemon.now_ms,
            call_soon=daemon.loop.call_soon,
        )
        outside = dataclasses.replace(
            daemon.door,
            router=gate,
            max_frame_bytes=min(settings.sasl_server_max_receive_size, daemon.door.max_frame_bytes),
            admit=lambda connection, transport: gate.admit(connection),
        )
        gate.inside, gate.outside = daemon.door, outside
        return outside


def by_certificate(rules: str) -> Callable[[Connection, Any], None]:
    """Return a function that sets a connection's principal: the rules map the distinguished name of the client's
    certificate to its name. Raises SecurityError for invalid rules or if `cryptography` is not installed.
    """
    try:
        from coordinatord.transport.security.certificates import subject_of
    except ImportError:
        raise SecurityError(MISSING.format(what="ssl.client.auth needs", package="cryptography")) from None
    try:
        mapper = PrincipalMapper(rules)
    except InvalidRule as error:
        raise SecurityError(f"ssl.principal.mapping.rules: {error}.") from error

    def admit(connection: Connection, transport: Any) -> None:
        session: ssl.SSLObject = transport.get_extra_info("ssl_object")
        certificate = session.getpeercert(binary_form=True)
        if certificate is None:
            return
        try:
            connection.principal = Principal(USER_TYPE, mapper.name(subject_of(certificate)))
        except (NoMatchingRule, ValueError) as error:
            connection.refuse("tls", str(error), listener=connection.listener)

    return admit
