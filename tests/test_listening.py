"""Listening sockets: all interfaces on one port, and errors that name the cause."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import stat

import pytest

from coordinatord.base.config.address import Listener, endpoints
from coordinatord.testing import Kafka
from coordinatord.transport.net.listening import bound
from tests.support.waiting import wait_until


def close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def test_every_interface_has_one_port() -> None:
    sockets = bound("", 0)
    try:
        assert len({each.family for each in sockets}) == len(sockets)
        [port] = {each.getsockname()[1] for each in sockets}
        assert port
        for each in sockets:
            each.listen()
            host = "::1" if each.family == socket.AF_INET6 else "127.0.0.1"
            socket.create_connection((host, port), timeout=10).close()
    finally:
        close(sockets)


def test_one_address_is_one_socket() -> None:
    sockets = bound("127.0.0.1", 0)
    close(sockets)
    [only] = sockets
    assert only.family == socket.AF_INET


def sizes(sock: socket.socket) -> tuple[int, int]:
    """SO_SNDBUF and SO_RCVBUF of a socket; Linux reports twice what was set (socket(7))."""
    return tuple(sock.getsockopt(socket.SOL_SOCKET, each) // 2 for each in (socket.SO_SNDBUF, socket.SO_RCVBUF))


def accepted_from(client: socket.socket) -> socket.socket | None:
    """The other end of a connection, if this process has accepted it."""
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                other = socket.socket(fileno=os.dup(int(descriptor)))
                if other.family == client.family and other.getpeername() == client.getsockname():
                    return other
                other.close()
    return None


def test_accepted_connections_have_buffers_of_the_settings() -> None:
    settings = {"socket.send.buffer.bytes": 40_000, "socket.receive.buffer.bytes": 50_000}
    with Kafka(settings=settings) as kafka:
        host, _colon, port = kafka.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            found: list[socket.socket] = []
            wait_until(lambda: found.extend(each for each in [accepted_from(client)] if each) or found, "an accept")
            with found[0]:
                assert sizes(found[0]) == (40_000, 50_000)


def test_minus_one_leaves_the_buffers_to_the_kernel() -> None:
    with socket.socket() as untouched:
        kernels = sizes(untouched)
    sockets = bound("127.0.0.1", 0, buffers=(-1, 50_000))
    try:
        assert sizes(sockets[0]) == (kernels[0], 50_000)
    finally:
        close(sockets)


def test_a_port_in_use_is_an_error() -> None:
    taken = bound("127.0.0.1", 0)
    taken[0].listen()
    try:
        with pytest.raises(OSError, match=rf"\[Errno {errno.EADDRINUSE}\]"):
            bound("127.0.0.1", taken[0].getsockname()[1])
    finally:
        close(taken)


def test_another_machines_address_is_an_error() -> None:
    with pytest.raises(OSError, match=rf"\[Errno {errno.EADDRNOTAVAIL}\]"):
        bound("192.0.2.1", 0)  # RFC 5737: nobody's


def test_an_unknown_host_is_an_error() -> None:
    with pytest.raises(socket.gaierror):
        bound("nowhere.invalid", 0)


def has_ipv6() -> bool:
    try:
        close(bound("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="skipped: this machine has no IPv6")


def reaches(sockets: list[socket.socket], host: str) -> bool:
    """Return whether a connection is accepted by one of the sockets: another program may have the port on `host`."""
    try:
        client = socket.create_connection((host, sockets[0].getsockname()[1]), timeout=10)
    except OSError:
        return False
    with client:
        for each in select.select(sockets, [], [], 10)[0]:
            accepted, peer = each.accept()
            accepted.close()
            if peer[1] == client.getsockname()[1]:
                return True
    return False


@needs_ipv6
@pytest.mark.parametrize(
    ("host", "by_ipv4", "by_ipv6"),
    [
        ("::", True, True),
        ("", True, True),
        ("0.0.0.0", True, False),
        ("127.0.0.1", True, False),
        ("::1", False, True),
    ],
)
def test_families_of_clients_that_reach_a_listener(host: str, by_ipv4: bool, by_ipv6: bool) -> None:
    """As on Kafka, whose wildcard address of IPv6 takes both families."""
    sockets = bound(host, 0)
    try:
        for each in sockets:
            each.listen()
        assert (reaches(sockets, "127.0.0.1"), reaches(sockets, "::1")) == (by_ipv4, by_ipv6)
    finally:
        close(sockets)


@needs_ipv6
def test_a_host_name_of_both_families_has_a_socket_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka binds the first address of a name alone; a client that tries the other one would be refused."""
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    sockets = bound("both.example", 0)
    monkeypatch.undo()
    try:
        for each in sockets:
            each.listen()
        assert len(sockets) == 2
        assert reaches(sockets, "127.0.0.1")
        assert reaches(sockets, "::1")
    finally:
        close(sockets)


@needs_ipv6
@pytest.mark.parametrize("names", [("A", "B"), ("B", "A")])
def test_a_port_of_one_listener_in_ipv4_and_of_another_in_ipv6(names: tuple[str, str]) -> None:
    """KIP-797; in either order."""
    free = bound("", 0)
    port = free[0].getsockname()[1]
    close(free)
    hosts = {"A": "0.0.0.0", "B": "::"}
    found = endpoints(tuple(Listener(name, hosts[name], port) for name in names), ())
    assert {each.name: each.v6_only for each in found} == {"A": False, "B": True}
    sockets = [each for one in found for each in bound(one.host, one.port, v6_only=one.v6_only)]
    try:
        assert len(sockets) == 2
    finally:
        close(sockets)
