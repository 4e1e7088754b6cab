"""Parsing of listeners: Kafka's form, `PLAINTEXT://host:port`, and plain `host:port`.

An empty host means every interface, as in Kafka; port 0 means any free port.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from coordinatord.base.config.setting_types import Unacceptable, listed, shown

WILDCARDS = frozenset({"", "0.0.0.0", "::"})
"""Hosts that mean "every interface": a server can bind them, a client cannot connect to them."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One entry of `listeners`, `advertised.listeners` or `admin.listeners`."""

    name: str
    """Kafka's listener name, upper case; PLAINTEXT when only host:port was given."""
    host: str
    """The host without the brackets of an IPv6 address; empty for every interface."""
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address to bind, and the address that responses give to clients."""

    name: str
    host: str
    """Host to bind; empty for every interface."""
    port: int
    """Port to bind; 0 for any free port."""
    advertised_host: str
    """Host for clients; never empty and never a wildcard."""
    advertised_port: int
    """Port for clients; 0 for the port that was bound."""
    v6_only: bool = False
    """True if another listener has the same port in IPv4, so that this listener must not accept IPv4 clients
    (KIP-797).
    """


def parse_listener(entry: str, default_name: str = "PLAINTEXT") -> Listener:
    name, scheme, rest = entry.partition("://")
    if not scheme:
        name, rest = default_name, entry
    host, colon, port_digits = rest.rpartition(":")
    if not (name and colon and port_digits.isascii() and port_digits.isdigit()):
        raise Unacceptable(f"must be HOST:PORT or NAME://HOST:PORT, not {shown(entry)}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise Unacceptable(f"must have an IPv6 address in brackets, as in [::1]:9092, not {shown(entry)}")
    port = int(port_digits[:6])
    if port > 65535 or len(port_digits) > 5:
        raise Unacceptable(f"must have a port from 0 to 65535, not {port_digits[:20]}")
    if any(character.isspace() or character in "/@[]" for character in host):
        raise Unacceptable(f"must be HOST:PORT or NAME://HOST:PORT, not {shown(entry)}")
    return Listener(name.upper(), host, port)


def parse_listeners(value: object) -> tuple[Listener, ...]:
    listeners = tuple(parse_listener(entry) for entry in listed(value))
    names = [listener.name for listener in listeners]
    if len(set(names)) < len(names):
        raise Unacceptable("must give each listener a name of its own, as in PLAINTEXT://:9092,INSIDE://:9093")
    return listeners


def parse_admin_listener(value: object) -> tuple[Listener, ...]:
    """Parse at most one listener, `http://host:port` or `host:port`."""
    listeners = tuple(parse_listener(entry, "HTTP") for entry in listed(value))
    if len(listeners) > 1:
        raise Unacceptable("takes one address only")
    if listeners and listeners[0].name != "HTTP":
        raise Unacceptable(f"must be HOST:PORT or http://HOST:PORT, not {shown(str(value))}")
    return listeners


def parse_protocol_map(value: object) -> tuple[tuple[str, str], ...]:
    """Parse `NAME:PROTOCOL,NAME:PROTOCOL` into ((NAME, PROTOCOL), …)."""
    protocols = []
    for entry in listed(value):
        name, colon, protocol = entry.partition(":")
        if not colon or not name.strip() or not protocol.strip():
            raise Unacceptable(f"must be a list of NAME:PROTOCOL, not {shown(entry)}")
        protocols.append((name.strip().upper(), protocol.strip().upper()))
    return tuple(protocols)


def endpoints(listeners: tuple[Listener, ...], advertised: tuple[Listener, ...]) -> tuple[Endpoint, ...]:
    """Pair each listener with its advertised address, by listener name. As in Kafka, a listener without advertised
    address advertises the bound host, or the machine's name if it is bound to every interface.
    """
    told = {listener.name: listener for listener in advertised}
    pairs = []
    for listener in listeners:
        tell = told.get(listener.name, listener)
        host = tell.host if tell.host not in WILDCARDS else socket.gethostname()
        others = [each for each in listeners if each.port == listener.port != 0 and ":" not in each.host]
        v6_only = ":" in listener.host and bool(others)
        pairs.append(Endpoint(listener.name, listener.host, listener.port, host, tell.port, v6_only))
    return tuple(pairs)
