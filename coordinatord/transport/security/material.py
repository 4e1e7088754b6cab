"""Files that `test.users` creates for tests: a certificate authority, the server's certificate, one for each user, and
for each family of clients the configuration with which it authenticates.

    <folder>/ca.pem                  the authority's certificate
    <folder>/server.pem              the listener's key and certificate
    <folder>/USER.pem                a user's key and certificate, where clients must show one
    <folder>/LISTENER/client.properties   for Kafka's own tools and Java clients, as the first user
    <folder>/LISTENER/clients.md     snippets for kafka-python, aiokafka, confluent-kafka, Java, franz-go

A second start with the same folder uses the authority's existing files, so that running clients need no new ones.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Final

from coordinatord.base.config import Settings
from coordinatord.base.config.security import SecuritySettings
from coordinatord.transport.security import MISSING, SecurityError

HOSTS: Final = ("localhost", "127.0.0.1", "::1")
WILDCARDS: Final = ("", "0.0.0.0", "::")
FOLDER: Final = "security"


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """The paths of the files. `settings` are the daemon's."""

    folder: Path
    settings: Settings

    @property
    def ca(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "ca.pem"

    @property
    def server(self) -> Path:
        """Key and certificate of the listener."""
        return self.folder / "server.pem"

    def filled_in(self, settings: SecuritySettings) -> SecuritySettings:
        """Return a listener's settings, with these certificates where the settings have none."""
        if not settings.ssl_keystore_location and not settings.ssl_keystore_key:
            settings = dataclasses.replace(settings, ssl_keystore_location=str(self.server), ssl_keystore_type="PEM")
        if not settings.ssl_truststore_location and not settings.ssl_truststore_certificates:
            settings = dataclasses.replace(settings, ssl_truststore_location=str(self.ca), ssl_truststore_type="PEM")
        return settings

    def client_properties(self, listener: str) -> Path:
        """Return the path of the file that Kafka's tools take as --command-config."""
        return self.folder / listener / "client.properties"

    def write_client_configurations(self, listener: str, bootstrap: str) -> None:
        """Write clients' configurations; called when the address is known."""
        from coordinatord.transport.security.client_snippets import Login, properties, snippets

        own = self.settings.of_listener(listener)
        protocol = self.settings.protocols[listener]
        offered = own.sasl_enabled_mechanisms
        user, password = self.settings.test_users[0]
        login = Login(
            bootstrap,
            protocol,
            next((each for each in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER") if each in offered), "")
            or "SCRAM-SHA-256",
            user,
            password,
            str(self.ca),
            str(self.folder / f"{user}.pem") if own.ssl_client_auth != "none" and protocol == "SSL" else None,
        )
        where = self.folder / listener
        where.mkdir(exist_ok=True)
        _write(self.client_properties(listener), properties(login))
        _write(where / "clients.md", snippets(login))


def material_of(settings: Settings) -> Material | None:
    """Return the paths of the files, whether or not they exist; None without test.users."""
    if not settings.test_users:
        return None
    folder = Path(settings.test_security_dir) if settings.test_security_dir else settings.data_dir / FOLDER
    return Material(folder.absolute(), settings)


def ready_file_paths(settings: Settings) -> dict[str, str]:
    """Return the paths for a ready file: the authority's certificate, and each listener's client.properties."""
    material = material_of(settings)
    if material is None:
        return {}
    secured = [name for name, protocol in settings.protocols.items() if protocol != "PLAINTEXT"]
    return {"ca": str(material.ca), **{name: str(material.client_properties(name)) for name in secured}}


def made_for(settings: Settings) -> Material | None:
    """Create the files, or find existing ones; None without test.users. Raises SecurityError."""
    material = material_of(settings)
    if material is None:
        return None
    hosts = sorted(
        {*HOSTS, *(host for each in settings.endpoints for host in (each.host, each.advertised_host))}
        .difference(WILDCARDS)
    )  # fmt: skip
    users = [name for name, _ in settings.test_users]
    wanted = json.dumps({"hosts": hosts, "users": sorted(users)})
    made = material.folder / "made.json"
    try:
        if made.exists() and made.read_text() == wanted:
            return material
        material.folder.mkdir(parents=True, exist_ok=True)
        _make(material, hosts, users)
        _write(made, wanted)
    except OSError as error:
        raise SecurityError(
            f"{material.folder} cannot be written ({error.strerror}): give another folder with test.security.dir."
        ) from error
    return material


def _make(material: Material, hosts: list[str], users: list[str]) -> None:
    try:
        import trustme
    except ImportError:
        raise SecurityError(MISSING.format(what="test.users needs", package="trustme")) from None
    from cryptography.hazmat.primitives import serialization

    def pem(issued: trustme.LeafCert) -> str:
        """Return key and certificates; the key as PKCS #8, the only format that Java reads."""
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return b"".join((key, *(each.bytes() for each in issued.cert_chain_pems))).decode()

    authority = trustme.CA(organization_name="coordinatord tests")
    _write(material.ca, authority.cert_pem.bytes().decode())
    _write(material.server, pem(authority.issue_cert(*hosts)))
    for user in users:
        # Java rejects certificates without alternative names.
        issued = authority.issue_cert("localhost", common_name=user, organization_name="coordinatord tests")
        _write(material.folder / f"{_file_name(user)}.pem", pem(issued))


def _file_name(user: str) -> str:
    if not user or user.startswith(".") or "/" in user or "\0" in user:
        raise SecurityError(f"test.users: {user!r} cannot be the name of a file.")
    return user


def _write(path: Path, text: str) -> None:
    """Write a file that only this user may read: it has keys and passwords."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
