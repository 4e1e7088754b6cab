"""TLS listeners: certificates, their change, clients without TLS, and clients that never finish their hello."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from coordinatord.base.config.security import SecuritySettings
from coordinatord.base.observe.metrics import Metrics
from coordinatord.server.daemon.secured import by_certificate
from coordinatord.transport.net import handshakes
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.handshakes import Handshakes
from coordinatord.transport.security import SecurityError
from coordinatord.transport.security.principal import ANONYMOUS, Principal
from coordinatord.transport.security.tls import Tls, make_context

CA = trustme.CA()
OTHER_CA = trustme.CA()


class Keys:
    """A folder with the files of a listener."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pem = folder / "server.pem"
        self.trusted = folder / "ca.pem"
        CA.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(self.pem)
        CA.cert_pem.write_to_path(self.trusted)

    def settings(self, **more: Any) -> SecuritySettings:
        return SecuritySettings(ssl_keystore_location=str(self.pem), ssl_truststore_location=str(self.trusted), **more)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


class Echo(asyncio.Protocol):
    """A stand-in for a connection; `admit` sees it as one."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.principal = ANONYMOUS
        self.refused: list[str] = []
        self.listener = "SSL"

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.server.made.append(self)
        if self.server.admit is not None:
            self.server.admit(self, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def refuse(self, kind: str, reason: str, **what: Any) -> None:
        self.refused.append(reason)
        self.transport.close()


class Server:
    """A TLS listener on a free port, in the test's event loop."""

    def __init__(
        self, context: Callable[[], ssl.SSLContext], *, timeout_s: float = 5.0, most: int = 100, admit: Any = None
    ) -> None:
        self.made: list[Echo] = []
        self.admit = admit
        self.metrics = Metrics()
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        self.port: int = listening.getsockname()[1]
        connections = Connections(most, lambda: 0, self.metrics)
        make: Any = lambda: Echo(self)  # noqa: E731
        self.handshakes = Handshakes(
            asyncio.get_running_loop(), listening, make, context, connections,
            listener="SSL", protocol="SSL", timeout_s=timeout_s, backlog=50,
        )  # fmt: skip


@contextlib.asynccontextmanager
async def serving(context: Callable[[], ssl.SSLContext], **more: Any) -> AsyncIterator[Server]:
    server = Server(context, **more)
    try:
        yield server
    finally:
        server.handshakes.close()
        await asyncio.sleep(0)


def client_context(authority: trustme.CA = CA, user: str | None = None, issuer: trustme.CA = CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    if user is not None:
        issuer.issue_cert(common_name=user, organization_name="ops").configure_cert(context)
    return context


async def echoed(port: int, context: ssl.SSLContext) -> tuple[bytes, dict[str, Any]]:
    """What comes back, and the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    try:
        writer.write(b"hello")
        said = await asyncio.wait_for(reader.readexactly(5), 10)
        return said, writer.get_extra_info("peercert")
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came about")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_clients_of_each_version_are_served(keys: Keys, version: str) -> None:
    context = make_context(keys.settings(ssl_enabled_protocols=(version,)), "SSL")
    async with serving(lambda: context) as server:
        client = client_context()
        assert (await echoed(server.port, client))[0] == b"hello"
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        if version == "TLSv1.3":
            with pytest.raises(ssl.SSLError):
                await echoed(server.port, client)


async def test_a_changed_certificate_is_for_new_connections_and_old_ones_go_on(keys: Keys) -> None:
    now_s = [0.0]
    tls = Tls(keys.settings(), "SSL", lambda: now_s[0])
    async with serving(tls.context) as server:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=client_context(), server_hostname="localhost"
        )
        first = (await echoed(server.port, client_context()))[1]["serialNumber"]
        CA.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(keys.pem)
        os.utime(keys.pem, (1, 1))
        now_s[0] = 0.5
        assert (await echoed(server.port, client_context()))[1]["serialNumber"] == first, "looked at once a second"
        now_s[0] = 1.5
        assert (await echoed(server.port, client_context()))[1]["serialNumber"] != first
        keys.pem.write_text("half a file")
        now_s[0] = 3.0
        assert (await echoed(server.port, client_context()))[0] == b"hello"
        writer.write(b"still here")
        assert await asyncio.wait_for(reader.readexactly(10), 10) == b"still here"
        writer.close()


async def test_who_shows_a_certificate_is_what_the_rules_make_of_it(keys: Keys) -> None:
    context = make_context(keys.settings(ssl_client_auth="required"), "SSL")
    for rules, name in (("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "ALICE"), ("DEFAULT", "CN=alice,")):
        async with serving(lambda: context, admit=by_certificate(rules)) as server:
            await echoed(server.port, client_context(user="alice"))
            assert str(server.made[0].principal).startswith(f"User:{name}")


async def test_a_certificate_that_no_rule_matches_lets_nobody_in(keys: Keys) -> None:
    context = make_context(keys.settings(ssl_client_auth="required"), "SSL")
    async with serving(lambda: context, admit=by_certificate("RULE:^CN=bob,.*$/bob/")) as server:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await echoed(server.port, client_context(user="alice"))
        await until(lambda: bool(server.made and server.made[0].refused))
        assert "No rules apply" in server.made[0].refused[0]


@pytest.mark.parametrize(
    ("client", "alert"),
    [
        (lambda: client_context(), "CERTIFICATE_REQUIRED"),
        (lambda: client_context(user="eve", issuer=OTHER_CA), "UNKNOWN_CA"),
    ],
)
async def test_a_client_without_a_good_certificate_is_told_so_by_an_alert(
    keys: Keys, client: Callable[[], ssl.SSLContext], alert: str
) -> None:
    """Kafka's clients give up when there is an alert, and retry for ever when there is none."""
    context = make_context(keys.settings(ssl_client_auth="required"), "SSL")
    async with serving(lambda: context) as server:
        with pytest.raises(ssl.SSLError, match=alert):
            await echoed(server.port, client())
        assert server.made == []
        assert server.metrics.rejected["tls"] == 1


@pytest.mark.parametrize("trusted", ["the root", "an intermediate alone", "the client's own alone"])
async def test_what_is_in_the_truststore_is_trusted(keys: Keys, trusted: str) -> None:
    """As in Java, be it a root or not. tests/reference/test_client_certificates.py asks Kafka about many more."""
    middle = CA.create_child_ca()
    issued = middle.issue_cert(common_name="alice")
    pem = {"the root": CA.cert_pem, "an intermediate alone": middle.cert_pem}.get(trusted, issued.cert_chain_pems[0])
    keys.trusted.write_bytes(pem.bytes())
    context = make_context(keys.settings(ssl_client_auth="required"), "SSL")
    async with serving(lambda: context, admit=by_certificate("RULE:^CN=(.*?),.*$/$1/")) as server:
        client = client_context()
        issued.configure_cert(client)
        await echoed(server.port, client)
        assert server.made[0].principal == Principal("User", "alice")
        with pytest.raises(ssl.SSLError):
            await echoed(server.port, client_context(user="eve", issuer=OTHER_CA))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_resumed_session_has_the_principal_of_its_certificate(keys: Keys, version: ssl.TLSVersion) -> None:
    """The client sends no certificate then: it must not become anonymous, nor anybody else."""
    context = make_context(keys.settings(ssl_client_auth="required"), "SSL")
    async with serving(lambda: context, admit=by_certificate("RULE:^CN=(.*?),.*$/$1/")) as server:
        client = client_context(user="alice")
        client.maximum_version = version

        def resumed(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
            with (
                socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
                client.wrap_socket(plain, server_hostname="localhost", session=session) as peer,
            ):
                peer.sendall(b"hello")
                assert peer.recv(5) == b"hello"
                return peer.session, peer.session_reused

        session, was_reused = await asyncio.to_thread(resumed, None)
        assert not was_reused
        assert (await asyncio.to_thread(resumed, session))[1]
        assert [each.principal for each in server.made] == [Principal("User", "alice")] * 2


async def test_a_certificate_that_is_asked_for_may_be_missing(keys: Keys) -> None:
    context = make_context(keys.settings(ssl_client_auth="requested"), "SSL")
    async with serving(lambda: context, admit=by_certificate("DEFAULT")) as server:
        await echoed(server.port, client_context())
        assert server.made[0].principal == Principal("User", "ANONYMOUS")


@pytest.mark.parametrize("first", [b"\0\0\0\x12\0\x12\0\x03", b"GET / HTTP/1.1\r\n"])
async def test_a_client_without_tls_is_refused_at_its_first_byte(keys: Keys, first: bytes) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        assert sum(server.metrics.rejected[kind] for kind in ("plaintext", "http")) == 1


async def test_clients_that_never_finish_their_hello_hold_nobody_up_and_are_cut_off(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context, timeout_s=5.0) as server:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(40)]
        for at, (_, writer) in enumerate(held):
            writer.write(b"\x16\x03\x01\x02\x00\x01"[: at % 7])
        await until(lambda: len(server.handshakes) == 40)
        assert (await echoed(server.port, client_context()))[0] == b"hello"
        await until(lambda: len(server.handshakes) == 0)
        for reader, writer in held:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert server.metrics.rejected["tls"] == 40


def hello_of(context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """A client that has written its hello, what it reads, and what it writes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return client, incoming, outgoing


async def test_a_hello_that_comes_slowly_is_looked_at_when_it_is_whole(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is polled: the kernel waits for the bytes. Its records may be small."""
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context) as server:
        looked = []
        look = server.handshakes._look
        monkeypatch.setattr(server.handshakes, "_look", lambda sock: (looked.append(sock), look(sock)))
        client, incoming, outgoing = hello_of(client_context())
        hello = outgoing.read()
        message = hello[5:]
        parts = [message[at : at + 100] for at in range(0, len(message), 100)]
        sent = b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(sent) - 1):
            writer.write(sent[at : at + 1])
            await asyncio.sleep(0)
        assert (await echoed(server.port, client_context()))[0] == b"hello"
        assert len(server.handshakes._waiting) == 1, "no handshake begins with a part"
        assert len(looked) <= 1 + 1 + 2 * len(parts), "another's hello, the first byte, each record's head and end"
        writer.write(sent[-1:])
        is_done = False
        while not is_done:
            incoming.write(await asyncio.wait_for(reader.read(1 << 16), 60))
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                is_done = True
            writer.write(outgoing.read())
        await until(lambda: len(server.made) == 2)
        writer.close()


@pytest.mark.parametrize("sent", [b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
async def test_a_client_that_ends_in_its_hello_is_dropped(keys: Keys, sent: bytes) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context, timeout_s=600.0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        await until(lambda: len(server.handshakes) == 1)
        writer.write_eof()
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        await until(lambda: len(server.handshakes) == 0)
        writer.close()


async def test_a_hello_that_is_too_long_is_refused(keys: Keys) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context, timeout_s=600.0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        record = b"\x16\x03\x01\x10\x00"
        for at in range(5):
            writer.write(record + (b"\x01\x01\x00\x00" if at == 0 else bytes(4)) + bytes(0x1000 - 4))
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        assert server.metrics.rejected["tls"] == 1
        writer.close()


@pytest.mark.parametrize("group", ["ffdhe2048", "ffdhe8192", "secp521r1"])
async def test_a_client_does_not_choose_an_expensive_key_exchange(keys: Keys, group: str) -> None:
    """With ffdhe8192, one hello of a client that nobody knows takes a hundred milliseconds of the event loop."""
    context = make_context(keys.settings(), "SSL")
    expensive = client_context()
    expensive.set_ecdh_curve(group)
    async with serving(lambda: context) as server:
        with pytest.raises(ssl.SSLError):
            await echoed(server.port, expensive)
        usual = client_context()
        usual.set_ecdh_curve("prime256v1")
        assert (await echoed(server.port, usual))[0] == b"hello"
        assert (await echoed(server.port, client_context()))[0] == b"hello", "whose first offer is another curve"


async def test_a_turn_begins_a_few_handshakes(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context) as server:
        begun: list[int] = []
        begin = server.handshakes._begin_some

        def counted() -> None:
            before = len(server.handshakes._queue)
            begin()
            begun.append(before - len(server.handshakes._queue))

        monkeypatch.setattr(server.handshakes, "_begin_some", counted)
        said = await asyncio.gather(*[echoed(server.port, client_context()) for _ in range(20)])
        assert {each[0] for each in said} == {b"hello"}
        assert max(begun) <= handshakes.PER_TURN
        assert sum(begun) == 20


async def test_clients_that_stop_in_the_middle_of_their_handshakes_hold_nobody_up(keys: Keys) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context, timeout_s=30.0) as server:
        held = []
        for _ in range(3 * handshakes.AT_ONCE):
            _, _, outgoing = hello_of(client_context())
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(outgoing.read())
            held.append((reader, writer))
        await until(lambda: len(server.handshakes._tasks) == len(held))
        assert server.handshakes._quick != server.handshakes._tasks
        assert (await echoed(server.port, client_context()))[0] == b"hello"
        for _, writer in held:
            writer.close()


async def test_sockets_before_their_handshake_count_as_connections(keys: Keys) -> None:
    context = make_context(keys.settings(), "SSL")
    async with serving(lambda: context, most=3) as server:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        await until(lambda: len(server.handshakes) == 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        assert server.metrics.rejected["limit"] == 1
        for _, each in (*held, (reader, writer)):
            each.close()


def pkcs12_of(issued: trustme.LeafCert, path: Path, password: bytes) -> None:
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    certificate = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    content = pkcs12.serialize_key_and_certificates(
        b"server",
        key,  # type: ignore[arg-type]
        certificate,
        [x509.load_pem_x509_certificate(CA.cert_pem.bytes())],
        serialization.BestAvailableEncryption(password),
    )
    path.write_bytes(content)


async def test_stores_may_be_pkcs_12_or_text(keys: Keys) -> None:
    issued = CA.issue_cert("localhost")
    store = keys.folder / "server.p12"
    pkcs12_of(issued, store, b"password")
    as_pkcs12 = SecuritySettings(
        ssl_keystore_location=str(store), ssl_keystore_type="PKCS12", ssl_keystore_password="password",
        ssl_truststore_location=str(store), ssl_truststore_type="PKCS12", ssl_truststore_password="password",
        ssl_client_auth="required",
    )  # fmt: skip
    as_text = SecuritySettings(
        ssl_keystore_key=issued.private_key_pem.bytes().decode(),
        ssl_keystore_certificate_chain=issued.cert_chain_pems[0].bytes().decode(),
        ssl_truststore_certificates=CA.cert_pem.bytes().decode(),
        ssl_client_auth="required",
    )
    for settings in (as_pkcs12, as_text):
        context = make_context(settings, "SSL")
        async with serving(lambda context=context: context) as server:  # type: ignore[misc]
            assert (await echoed(server.port, client_context(user="alice")))[0] == b"hello"


@pytest.mark.parametrize("content", ["", "no PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_keystore_that_cannot_be_read_is_told_in_a_sentence(keys: Keys, content: str) -> None:
    keys.pem.write_text(content)
    with pytest.raises(SecurityError, match=r"The listener OUT cannot be served: .*server\.pem is no readable PEM"):
        make_context(keys.settings(), "OUT")
    keys.pem.unlink()
    with pytest.raises(SecurityError, match="No such file"):
        make_context(keys.settings(), "OUT")


def test_nobody_else_can_read_a_key_that_is_written_for_openssl(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keys.folder / "server.p12"
    pkcs12_of(CA.issue_cert("localhost"), store, b"password")
    seen: list[int] = []
    real = ssl.SSLContext.load_cert_chain

    def load(self: ssl.SSLContext, path: str, **named: Any) -> None:
        seen.append(os.stat(path).st_mode & 0o777)
        assert b"ENCRYPTED" in Path(path).read_bytes()
        seen.append(len(path))
        paths.append(path)
        real(self, path, **named)

    paths: list[str] = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    make_context(
        SecuritySettings(
            ssl_keystore_location=str(store), ssl_keystore_type="PKCS12", ssl_keystore_password="password"
        ),
        "SSL",
    )
    assert seen[0] == 0o600
    assert not Path(paths[0]).exists()
