"""Rules for combinations of TLS and SASL settings, for each listener that is not PLAINTEXT."""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.base.config.security import MECHANISMS, SecuritySettings
from coordinatord.base.config.settings import Settings


def broken(settings: Settings, listener: str, protocol: str) -> Iterator[str]:
    """Return one sentence for each rule that the listener's settings break."""
    own = settings.of_listener(listener)
    if protocol.endswith("SSL"):
        yield from _tls(own, listener)
    if protocol.startswith("SASL"):
        yield from _sasl(settings, own, listener)


def _tls(own: SecuritySettings, listener: str) -> Iterator[str]:
    if own.test_users and not own.ssl_keystore_location and not own.ssl_keystore_key:
        return
    if not own.ssl_keystore_location and not (own.ssl_keystore_key and own.ssl_keystore_certificate_chain):
        yield (
            f"The listener {listener} has no certificate: give ssl.keystore.location, a PEM file with the key and the "
            "certificates (or test.users for tests)."
        )
    for name, store_type, used in (
        ("keystore", own.ssl_keystore_type, own.ssl_keystore_location),
        ("truststore", own.ssl_truststore_type, own.ssl_truststore_location),
    ):
        if used and store_type == "JKS":
            yield (
                f"ssl.{name}.type=JKS is Java's own format: convert the file with `keytool -importkeystore "
                f"-deststoretype pkcs12` and give ssl.{name}.type=PKCS12, or give PEM."
            )
    if own.ssl_client_auth != "none" and not (own.ssl_truststore_location or own.ssl_truststore_certificates):
        yield (
            f"The listener {listener} asks clients for certificates (ssl.client.auth={own.ssl_client_auth}) and trusts "
            "none: give ssl.truststore.location."
        )


def _sasl(settings: Settings, own: SecuritySettings, listener: str) -> Iterator[str]:
    mechanisms = own.sasl_enabled_mechanisms
    if not mechanisms and not own.test_users:
        yield (
            f"The listener {listener} has no way to log in: give sasl.enabled.mechanisms, "
            f"a list of {', '.join(MECHANISMS)}."
        )
    if "OAUTHBEARER" in mechanisms:
        tokens = settings.of_listener(listener, "OAUTHBEARER")
        if not tokens.sasl_oauthbearer_jwks_endpoint_url and not tokens.test_oauthbearer_unsecured:
            yield (
                f"The listener {listener} cannot check tokens: give sasl.oauthbearer.jwks.endpoint.url "
                "(or test.oauthbearer.unsecured=true for tests)."
            )
        if tokens.sasl_oauthbearer_jwks_endpoint_url:
            yield from _claims(tokens, listener)


def _claims(tokens: SecuritySettings, listener: str) -> Iterator[str]:
    """Return the claims of tokens without an expected value, which Kafka 4.4 requires (BrokerJwtValidator)."""
    for claim, is_given in (
        ("audience", tokens.sasl_oauthbearer_expected_audience or tokens.sasl_oauthbearer_allow_unverified_audience),
        ("issuer", tokens.sasl_oauthbearer_expected_issuer or tokens.sasl_oauthbearer_allow_unverified_issuer),
    ):
        if not is_given:
            yield (
                f"The listener {listener} does not know whose tokens to take: give sasl.oauthbearer.expected.{claim}, "
                f"or sasl.oauthbearer.allow.unverified.{claim}=true to take those of every {claim}."
            )
