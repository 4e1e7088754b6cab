"""What test.users makes, and a daemon that uses it, as users start it."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path

import javaproperties
import pytest
from cryptography import x509

from coordinatord.base.config import Settings
from coordinatord.base.config.load import assignment, load
from coordinatord.transport.security import SecurityError
from coordinatord.transport.security.client_snippets import Login, properties, snippets
from coordinatord.transport.security.jaas import options_of
from coordinatord.transport.security.material import made_for, ready_file_paths
from tests.daemon import HOST, Daemon, free_port


def settings_of(folder: Path, *more: str) -> Settings:
    given = ["listeners=SASL_SSL://kafka.test:0,SSL://0.0.0.0:0", f"test.security.dir={folder}", *more]
    return load(flags=[assignment(each, "--set") for each in given]).settings


def hosts_of(certificate: Path) -> list[str]:
    found = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return sorted(str(each.value) for each in names)


def test_it_is_made_once_for_the_same_hosts_and_users_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "test.users=alice:secret,bob:word")
    made = made_for(settings)
    assert made is not None
    assert {"127.0.0.1", "localhost", "kafka.test"} <= set(hosts_of(made.server))
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    before = made.ca.read_bytes()
    made_for(settings)
    assert made.ca.read_bytes() == before
    made_for(settings_of(tmp_path, "test.users=alice:secret"))
    assert made.ca.read_bytes() != before
    context = ssl.create_default_context(cafile=str(made.ca))
    context.load_cert_chain(tmp_path / "bob.pem")
    assert b"BEGIN PRIVATE KEY" in (tmp_path / "bob.pem").read_bytes(), "PKCS #8, as Java needs it"


@pytest.mark.parametrize("user", ["a/b", "..", ".hidden"])
def test_a_user_is_no_path(tmp_path: Path, user: str) -> None:
    with pytest.raises(SecurityError, match="cannot be the name of a file"):
        made_for(settings_of(tmp_path, f"test.users={user}:secret"))


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SecurityError, match=r"give another folder with test\.security\.dir"):
        made_for(settings_of(tmp_path / "file" / "x", "test.users=a:b"))


def test_nothing_is_made_without_users(tmp_path: Path) -> None:
    assert made_for(Settings()) is None
    assert ready_file_paths(Settings()) == {}


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_snippets_say_what_a_client_needs_and_nothing_else(protocol: str, mechanism: str) -> None:
    login = Login("h:1", protocol, mechanism, "alice", "secret", "/ca.pem", "/k.pem" if protocol == "SSL" else None)
    text = properties(login)
    assert f"security.protocol={protocol}" in text
    assert ("sasl.jaas.config" in text) is protocol.startswith("SASL")
    assert ("ssl.truststore.location=/ca.pem" in text) is protocol.endswith("SSL")
    assert ("ssl.keystore.location=/k.pem" in text) is (protocol == "SSL")
    page = snippets(login)
    for family in ("KafkaConsumer(", "AIOKafkaConsumer(", "Consumer({", "kgo.NewClient("):
        assert family in page
    assert page.count("```") == 10


@pytest.mark.parametrize("password", ["p=;w", 'a"b\\c', "pªss", "\U0001f600", "a\tb", "\\u0041", "$x %y #z"], ids=ascii)
def test_client_properties_have_javas_escapes(password: str) -> None:
    """As java.util.Properties and then the JAAS parser read them."""
    text = properties(Login("h:1", "SASL_SSL", "PLAIN", "älice", password, "/tmp/ü/ca.pem", None))
    assert text.replace("\n", "").isascii()
    assert text.replace("\n", "").isprintable()
    read = javaproperties.loads(text)
    assert read["ssl.truststore.location"] == "/tmp/ü/ca.pem"
    assert options_of(read["sasl.jaas.config"]) == {"username": "älice", "password": password}


def test_one_line_starts_a_daemon_with_tls_and_a_user(tmp_path: Path) -> None:
    port, ready = free_port(2), tmp_path / "ready.json"
    listeners = f"PLAINTEXT://{HOST}:{port},SASL_SSL://{HOST}:{port + 1}"
    daemon = Daemon(
        tmp_path,
        {"listeners": listeners, "test.users": "alice:secret"},
        arguments=["--ready-file", str(ready)],
        port=port,
    )
    daemon.start()
    try:
        clients = json.loads(ready.read_text())["clients"]
        folder = daemon.data_dir / "security"
        assert clients == {"ca": str(folder / "ca.pem"), "SASL_SSL": str(folder / "SASL_SSL" / "client.properties")}
        text = Path(clients["SASL_SSL"]).read_text()
        assert f"bootstrap.servers={HOST}:{port + 1}" in text
        assert (folder / "SASL_SSL" / "clients.md").exists()
    finally:
        assert daemon.stop() == 0
    daemon.start()  # the data directory with the folder in it is still ours
    assert daemon.stop() == 0


def test_a_listener_that_cannot_be_set_up_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_text("nothing")
    port = free_port()
    settings = {"listeners": f"SSL://{HOST}:{port}", "ssl.keystore.location": str(tmp_path / "server.pem")}
    daemon = Daemon(tmp_path, settings, port=port)
    process = daemon.launch()
    assert process.wait(90) == 1
    assert "server.pem is no readable PEM with a key and its certificates" in daemon.log_tail()
    assert "Traceback" not in daemon.log_tail()
