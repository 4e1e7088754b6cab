"""Client properties files, in the form of Kafka's own tools (--command-config), converted to kafka-python's settings.

Kafka 4.3: org.apache.kafka.common.config.SslConfigs, SaslConfigs and org.apache.kafka.clients.CommonClientConfigs.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import javaproperties

SAME = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
}
NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "receive.buffer.bytes": "receive_buffer_bytes",
    "send.buffer.bytes": "send_buffer_bytes",
}
READ = frozenset(
    {
        "sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates",
        "ssl.truststore.password", "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password",
        "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip
HARMLESS = re.compile(
    r"ssl\.(protocol|provider|enabled\.protocols|secure\.random\.implementation|.*manager\.algorithm)"
)
"""Settings of Java's TLS implementation, which have no meaning here."""
LOGIN = re.compile(r"\s*\S*\.(Plain|Scram)LoginModule\s+required\s+(.*?);\s*", re.DOTALL)
FIELD = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
CONVERT = (
    "Python reads PEM alone. Convert it (keytool -importkeystore to PKCS12, then openssl pkcs12 -nodes), and set "
    "{kind}.type=PEM"
)


class ClientConfigError(Exception):
    """The file cannot be used. The message is a sentence without its full stop, and never contains a secret."""


def read_client_config(file: Path) -> tuple[dict[str, str], list[str]]:
    """Return kafka-python's settings as text, and the names in the file that have no meaning here. The file is Latin-1,
    as for Kafka's tools (Utils.loadProps). Raises ClientConfigError.
    """
    try:
        given = javaproperties.loads(file.read_text("latin-1"))
    except (OSError, ValueError) as error:
        raise ClientConfigError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return settings_of(given, f"--command-config {file}")


def settings_of(given: Mapping[str, str], where: str) -> tuple[dict[str, str], list[str]]:
    """Convert properties like `read_client_config`. `where` names their source in error messages."""
    settings = {ours: given[name].strip() for name, ours in SAME.items() if given.get(name)}
    if "security_protocol" in settings:
        settings["security_protocol"] = settings["security_protocol"].upper()
    for name, ours in NUMBERS.items():
        if name in given:
            if not re.fullmatch(r"\s*\d+\s*", given[name]):
                raise ClientConfigError(f"{where}: {name} wants a whole number")
            settings[ours] = given[name].strip()
    settings |= _login(given, where) | _trusted(given, where) | _own(given, where)
    if given.get("ssl.endpoint.identification.algorithm", "https").strip().lower() != "https":
        settings["ssl_check_hostname"] = "false"
    unused = sorted(given.keys() - SAME.keys() - NUMBERS.keys() - READ)
    for name in unused:
        if name.startswith(("sasl.", "ssl.", "security.")) and not HARMLESS.fullmatch(name):
            raise ClientConfigError(f"{where}: {name} is not supported here")
    return settings, [name for name in unused if name != "bootstrap.servers" and not HARMLESS.fullmatch(name)]


def _login(given: Mapping[str, str], where: str) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", "").strip()
    text = given.get("sasl.jaas.config")
    if text is None or not mechanism.startswith(("PLAIN", "SCRAM")):
        if mechanism == "OAUTHBEARER":
            raise ClientConfigError(f"{where}: sasl.mechanism=OAUTHBEARER is not supported here")
        return {}
    match = LOGIN.fullmatch(text)
    fields = {name: next(filter(None, values), "") for name, *values in FIELD.findall(match[2])} if match else {}
    if "username" not in fields or "password" not in fields:
        raise ClientConfigError(
            f"{where}: sasl.jaas.config has no username and password of PlainLoginModule or ScramLoginModule"
        )
    names = {"sasl_plain_username": "username", "sasl_plain_password": "password"}
    return {ours: re.sub(r"\\(.)", r"\1", fields[name]) for ours, name in names.items()}


def _trusted(given: Mapping[str, str], where: str) -> dict[str, str]:
    inline = given.get("ssl.truststore.certificates")
    if inline:
        return {"ssl_cafile": _kept(inline)}
    location = given.get("ssl.truststore.location")
    return {"ssl_cafile": _pem(location, given, "ssl.truststore", where)} if location else {}


def _own(given: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the settings of the client's certificate and key."""
    key, chain = given.get("ssl.keystore.key"), given.get("ssl.keystore.certificate.chain")
    if key and chain:
        return {"ssl_certfile": _kept(chain), "ssl_keyfile": _kept(key)}
    location = given.get("ssl.keystore.location")
    if not location:
        return {}
    path = _pem(location, given, "ssl.keystore", where)
    return {"ssl_certfile": path, "ssl_keyfile": path}


def _pem(location: str, given: Mapping[str, str], kind: str, where: str) -> str:
    path = location.strip()
    try:
        with open(path, "rb") as file:
            is_pem = b"-----BEGIN" in file.read(1 << 20)
    except OSError as error:
        raise ClientConfigError(f"{where}: {kind}.location={path}: {error.strerror or error}") from None
    if not is_pem:
        form = given.get(f"{kind}.type", "JKS").strip()
        raise ClientConfigError(f"{where}: {kind}.location={path} is {form}. {CONVERT.format(kind=kind)}")
    return path


def _kept(pem: str, at_exit: Callable[..., Any] = atexit.register) -> str:
    """Write `pem` to a file that only this user can read, until the process ends: ssl accepts only files. Returns the
    path.
    """
    number, path = tempfile.mkstemp(prefix="coordinatord-", suffix=".pem")
    with os.fdopen(number, "w") as file:
        file.write(pem)
    at_exit(os.unlink, path)
    return path
