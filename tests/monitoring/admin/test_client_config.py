"""Kafka's properties of a client as kafka-python's settings; what cannot be had is refused, and no secret is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.monitoring.admin.client_config import ClientConfigError, read_client_config, settings_of

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="al\\"ice" password="b=;\'c";'
PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


def test_a_file_as_kafkas_tools_take_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    file = tmp_path / "client.properties"
    file.write_text(
        f"""# as in the broker's documentation
security.protocol = sasl_ssl
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
   username="reader" \\
   password="p=;w";
ssl.truststore.type=PEM
ssl.truststore.location={tmp_path / "ca.pem"}
ssl.keystore.type=PEM
ssl.keystore.location={tmp_path / "ca.pem"}
ssl.endpoint.identification.algorithm=
request.timeout.ms=5000
isolation.level=read_committed
bootstrap.servers=elsewhere:9092
ssl.enabled.protocols=TLSv1.3
"""
    )
    settings, unused = read_client_config(file)
    assert settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "reader",
        "sasl_plain_password": "p=;w",
        "ssl_cafile": str(tmp_path / "ca.pem"),
        "ssl_certfile": str(tmp_path / "ca.pem"),
        "ssl_keyfile": str(tmp_path / "ca.pem"),
        "ssl_check_hostname": "false",
        "request_timeout_ms": "5000",
    }
    assert unused == ["isolation.level"]


def test_quotes_in_a_login() -> None:
    settings, _ = settings_of({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM}, "FILE")
    assert (settings["sasl_plain_username"], settings["sasl_plain_password"]) == ('al"ice', "b=;'c")


def test_certificates_in_the_file_itself() -> None:
    settings, _ = settings_of(
        {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": PEM,
            "ssl.keystore.certificate.chain": PEM,
            "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\n",
            "ssl.key.password": "word",
        },
        "FILE",
    )
    assert Path(settings["ssl_cafile"]).read_text() == PEM
    assert Path(settings["ssl_keyfile"]).stat().st_mode & 0o077 == 0, "nobody else reads the key"
    assert settings["ssl_password"] == "word"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"request.timeout.ms": "soon"}, "request.timeout.ms wants a whole number"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "x"}, "OAUTHBEARER is not supported here"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "secret"}, "has no username and password"),
        ({"ssl.truststore.location": "/none.pem"}, "ssl.truststore.location=/none.pem: No such file or directory"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites is not supported here"),
        ({"sasl.mechansim": "PLAIN"}, "sasl.mechansim is not supported here"),
    ],
)
def test_what_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ClientConfigError, match=says) as told:
        settings_of(given, "FILE")
    assert "secret" not in str(told.value)


def test_a_java_key_store_is_told_how_to_convert(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ClientConfigError, match=r"trust.jks is JKS. Python reads PEM alone. Convert it \(keytool"):
        settings_of({"ssl.truststore.location": str(store)}, "FILE")
    with pytest.raises(ClientConfigError, match=r"client.properties cannot be read: No such file"):
        read_client_config(tmp_path / "client.properties")
