"""Settings of TLS and SASL: Kafka's names, and the overrides `listener.name.NAME.SETTING`.

They are rows of the one table (settings.py), in a class of their own because each of them may have another value per
listener, and settings of SASL per listener and mechanism:
`listener.name.outside.scram-sha-512.connections.max.reauth.ms`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from coordinatord.base.config.setting_types import (
    LONG_MAX,
    Unacceptable,
    boolean,
    choice,
    declared,
    integer,
    parsed,
    text,
    words,
)
from kafka_wire.java import trim

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms that clients can authenticate with. Kafka also has GSSAPI (Kerberos)."""

PREFIX: Final = "listener.name."
PASSWORD: Final = "password"
"""The kind of values that are never shown."""

STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")


def optional_text(value: object) -> str | None:
    """Return text, or None if it is empty."""
    return text(value) or None


def _password(doc: str) -> Any:
    return parsed(None, optional_text, PASSWORD, doc)


def _text(doc: str) -> Any:
    return parsed(None, optional_text, "text", doc)


def _users(value: object) -> tuple[tuple[str, str], ...]:
    """Parse `alice:secret,bob:word` into ((alice, secret), (bob, word)). A password cannot have a comma."""
    users = []
    for entry in text(value).split(","):
        name, colon, password = trim(entry).partition(":")
        if not (name or colon):
            continue
        if not (name and colon and password):
            raise Unacceptable("must be a list of NAME:PASSWORD")
        users.append((name, password))
    return tuple(users)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SecuritySettings:
    """The settings that listeners may override."""

    ssl_keystore_location: str | None = _text(
        "The key and the certificates: a PEM file with both, or a PKCS #12 file. Read again when it changes."
    )
    ssl_keystore_type: str = choice(
        "PEM",
        STORE_TYPES,
        "The keystore's format.",
        ours="JKS in Kafka, a format of Java alone, which cannot be read here",
    )
    ssl_keystore_password: str | None = _password("The password of a PKCS #12 keystore.")
    ssl_key_password: str | None = _password("The password of an encrypted key.")
    ssl_keystore_key: str | None = _password("The key itself, as PEM, instead of ssl.keystore.location.")
    ssl_keystore_certificate_chain: str | None = _password("The certificates to ssl.keystore.key, as PEM.")
    ssl_truststore_location: str | None = _text(
        "The authorities that sign clients' certificates, as PEM or PKCS #12. Read again when it changes."
    )
    ssl_truststore_type: str = choice("PEM", STORE_TYPES, "The truststore's format.", ours="JKS in Kafka")
    ssl_truststore_password: str | None = _password("The password of a PKCS #12 truststore.")
    ssl_truststore_certificates: str | None = _password(
        "The certificates themselves, as PEM, instead of ssl.truststore.location."
    )
    ssl_client_auth: str = choice(
        "none",
        ("required", "requested", "none"),
        "Request a certificate from clients. SASL_SSL listeners use only listener.name.NAME.ssl.client.auth.",
    )
    ssl_enabled_protocols: tuple[str, ...] = words(
        ("TLSv1.2", "TLSv1.3"), "Versions of TLS that clients may use.", allowed=("TLSv1.2", "TLSv1.3")
    )
    ssl_principal_mapping_rules: str = parsed(
        "DEFAULT",
        text,
        "list of RULE:PATTERN/REPLACEMENT/[LU], or DEFAULT",
        "Rules that turn a client certificate's distinguished name into the principal's name; the first match counts.",
    )
    sasl_enabled_mechanisms: tuple[str, ...] = words(
        (),
        "Mechanisms that SASL listeners offer.",
        allowed=MECHANISMS,
        ours="GSSAPI in Kafka, which cannot be served here; with test.users all but OAUTHBEARER",
    )
    sasl_jaas_config: str | None = _password(
        'As listener.name.NAME.MECHANISM.sasl.jaas.config: `… required user_alice="secret";` names users.'
    )
    sasl_server_max_receive_size: int = integer(
        524_288, "The largest request of a client that has not authenticated.", minimum=1
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = _text(
        "URL of the keys of tokens' signatures: https://… or file:///…; it is read again periodically."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = integer(
        3_600_000, "Time between two reads of the keys.", minimum=1, maximum=LONG_MAX
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = words((), "Audiences, one of which a token must have.")
    sasl_oauthbearer_expected_issuer: str | None = _text("The issuer that a token must name.")
    sasl_oauthbearer_allow_unverified_audience: bool = boolean(
        False, "Take tokens of every audience where sasl.oauthbearer.expected.audience is not given."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = boolean(
        False, "Take tokens of every issuer where sasl.oauthbearer.expected.issuer is not given."
    )
    sasl_oauthbearer_clock_skew_seconds: int = integer(30, "Seconds by which the clock of a token's issuer may differ.")
    sasl_oauthbearer_sub_claim_name: str = parsed("sub", text, "text", "The claim with the principal's name.")
    connections_max_reauth_ms: int = integer(
        0,
        "Time after which a client must authenticate again, 0 for never; the end of a token counts, too (KIP-368).",
        maximum=LONG_MAX,
    )
    connection_failed_authentication_delay_ms: int = integer(
        100, "Delay of the response to a client whose authentication failed."
    )
    connections_authentication_timeout_ms: int = integer(
        10_000,
        "Time limit of the TLS handshake, and of SASL after it.",
        minimum=1,
        ours="not in Kafka, which waits for connections.max.idle.ms",
    )
    test_users: tuple[tuple[str, str], ...] = parsed(
        (),
        _users,
        "list of NAME:PASSWORD",
        """For tests: users of SASL listeners, for each mechanism. A certificate authority, a certificate and
        clients' configurations are made in test.security.dir.""",
        ours="not in Kafka",
    )
    test_security_dir: str | None = parsed(
        None,
        optional_text,
        "directory",
        "Directory of the files that test.users makes; unset: the folder `security` in the data directory.",
        ours="not in Kafka",
    )
    test_oauthbearer_unsecured: bool = boolean(
        False,
        "For tests: accept tokens without a signature, as Kafka does by default.",
        ours="not in Kafka, where it is on unless a callback handler is set",
    )


ROWS: Final = declared(SecuritySettings)
"""Dotted name -> row of the settings that may follow `listener.name.NAME.`."""

LISTENERS_ALONE: Final = frozenset({"test.users", "test.security.dir", "connection.failed.authentication.delay.ms"})
"""Settings that apply to all listeners together."""

BY_MECHANISM: Final = frozenset(
    {"connections.max.reauth.ms", "sasl.jaas.config"} | {name for name in ROWS if name.startswith("sasl.oauthbearer.")}
)
"""Settings that may be given for a mechanism of a listener."""


@dataclasses.dataclass(frozen=True, slots=True)
class Override:
    """One `listener.name.…`: the listener, upper case; the mechanism or ""; the setting's name; its value."""

    listener: str
    mechanism: str
    name: str
    value: Any = dataclasses.field(repr=False)


def override(name: str, value: object) -> Override | None:
    """Parse `listener.name.…`; None if it is a setting without effect in coordinatord. Raises Unacceptable."""
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    mechanism = ""
    row = ROWS.get(rest)
    if row is None:
        for each in MECHANISMS:
            if rest.startswith(f"{each.lower()}."):
                mechanism, rest = each, rest[len(each) + 1 :]
                row = ROWS.get(rest) if rest in BY_MECHANISM else None
    if row is None or rest in LISTENERS_ALONE:
        return None
    return Override(listener.upper(), mechanism, rest, row.parse(value))


def of_listener(
    settings: SecuritySettings, overrides: tuple[Override, ...], listener: str, mechanism: str = ""
) -> SecuritySettings:
    """Return the settings that apply to a listener, or to a mechanism of the listener."""
    values = {name: getattr(settings, row.attribute) for name, row in ROWS.items()}
    for wanted in dict.fromkeys(("", mechanism)):
        values |= {each.name: each.value for each in overrides if (each.listener, each.mechanism) == (listener, wanted)}
    return SecuritySettings(**{ROWS[name].attribute: value for name, value in values.items()})


def is_overridden(overrides: tuple[Override, ...], listener: str, name: str) -> bool:
    """Return whether a setting was given for this listener."""
    return any((each.listener, each.name) == (listener, name) for each in overrides)
