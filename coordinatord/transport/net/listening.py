"""Sockets that clients connect to, bound before the event loop exists.

A host may resolve to several addresses (no host: all interfaces, in IPv4 and in IPv6). All of them get the same port,
even if the kernel chooses it: responses name one port. The host `::` alone accepts IPv4 clients as well, as in Kafka.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

Address = tuple[int, tuple[Any, ...]]
"""An address family and its argument for `bind`, which starts with host and port."""

KERNEL_BUFFERS = (-1, -1)
"""Sizes of buffers that the kernel chooses, and changes while a connection is open."""

ATTEMPTS = 20
"""Maximum number of free ports to try if a port that is free in IPv4 is taken in IPv6."""


def bound(
    host: str, port: int, *, v6_only: bool = False, buffers: tuple[int, int] = KERNEL_BUFFERS
) -> list[socket.socket]:
    """Return bound sockets, not yet listening, in getaddrinfo's order. Raises OSError if that fails.

    `v6_only`: another listener has this port in IPv4, so an IPv6 socket must leave it alone. `buffers`: SO_SNDBUF and
    SO_RCVBUF in bytes, -1 for the kernel's. Accepted connections inherit both; the receive buffer must be set before
    `listen`, since the handshake announces its window (tcp(7); Kafka's Acceptor).
    """
    name = host.encode() if host.isascii() else host  # a str has getaddrinfo import the tables of other alphabets
    found = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses: list[Address] = list(dict.fromkeys((family, where) for family, _type, _protocol, _name, where in found))
    v6_only = v6_only or any(family == socket.AF_INET for family, _ in addresses)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _all_bound(addresses, v6_only, buffers)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE or attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _all_bound(addresses: list[Address], v6_only: bool, buffers: tuple[int, int]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    unsupported: OSError | None = None
    try:
        for family, where in addresses:
            if sockets and not where[1]:
                where = (where[0], sockets[0].getsockname()[1], *where[2:])
            try:
                sockets.append(_one_bound(family, where, v6_only, buffers))
            except OSError as error:
                # A kernel without IPv6 still resolves names to it.
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) or len(addresses) == 1:
                    raise
                unsupported = error
    except BaseException:
        for each in sockets:
            each.close()
        raise
    if not sockets and unsupported is not None:
        raise unsupported
    return sockets


def _one_bound(family: int, where: tuple[Any, ...], v6_only: bool, buffers: tuple[int, int]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # the default of V6ONLY depends on the system
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(v6_only))
        for option, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), buffers, strict=True):
            if size != -1:
                made.setsockopt(socket.SOL_SOCKET, option, size)
        made.bind(where)
    except BaseException:
        made.close()
        raise
    return made
