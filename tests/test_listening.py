"""Listening sockets: all interfaces on one port, and errors that name the cause."""

from __future__ import annotations

import errno
import socket

import pytest

from coordinatord.net.listening import bound


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
