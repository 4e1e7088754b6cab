"""The SASL mechanisms of one listener, made from its settings. Only packages of enabled mechanisms are imported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinatord.base.config import Settings
from coordinatord.base.config.security import SecuritySettings
from coordinatord.transport.security import MISSING, SecurityError
from coordinatord.transport.security.jaas import users_of
from coordinatord.transport.security.plain import Plain
from coordinatord.transport.security.sasl import Mechanism, Server

FOR_TESTS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Mechanisms that test.users enables if sasl.enabled.mechanisms is not set."""


class Mechanisms:
    """The mechanisms of a listener. `by_name` has those that the SASL gate offers. `stored(mechanism, user)` returns a
    SCRAM credential of the metadata log, which takes precedence over one of the settings. Raises SecurityError.
    """

    def __init__(
        self, settings: Settings, listener: str, loop: asyncio.AbstractEventLoop, stored: Callable[[str, str], Any]
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._loop = loop
        self._stored = stored
        own = settings.of_listener(listener)
        enabled = own.sasl_enabled_mechanisms or FOR_TESTS
        self.by_name: Mapping[str, Mechanism] = {name: self._mechanism(name) for name in enabled}

    def _mechanism(self, name: str) -> Mechanism:
        own = self._own(name)
        return Mechanism(name, self._server(name), own.connections_max_reauth_ms)

    def _own(self, mechanism: str) -> SecuritySettings:
        return self._settings.of_listener(self._listener, mechanism)

    def _server(self, name: str) -> Callable[[], Server]:
        if name == "PLAIN":
            return self._plain()
        if name == "OAUTHBEARER":
            return self._tokens()
        return self._scram(name)

    def _users(self, mechanism: str) -> dict[str, str]:
        """Return the users of the JAAS setting and of test.users."""
        own = self._own(mechanism)
        users = dict(own.test_users)
        if own.sasl_jaas_config is not None:
            name = f"listener.name.{self._listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            try:
                users |= users_of(own.sasl_jaas_config)
            except ValueError as error:
                raise SecurityError(f"{name} {error}.") from error
        return users

    def _plain(self) -> Callable[[], Server]:
        users = self._users("PLAIN")
        return lambda: Plain(users.get)

    def _scram(self, name: str) -> Callable[[], Server]:
        from coordinatord.transport.security.scram import Credential, Scram, credential_of

        known = {user: credential_of(name, password) for user, password in self._users(name).items()}

        stored = self._stored

        def find(user: str) -> Credential | None:
            return stored(name, user) or known.get(user)

        return lambda: Scram(name, find)

    def _tokens(self) -> Callable[[], Server]:
        from coordinatord.transport.security.oauthbearer import OAuthBearer, Signed, Unsecured

        own = self._own("OAUTHBEARER")
        if own.test_oauthbearer_unsecured:
            unsecured = Unsecured(own)
            return lambda: OAuthBearer(unsecured)
        url = own.sasl_oauthbearer_jwks_endpoint_url
        if url is None:  # the rules of settings reject this: a missing URL must never disable the check
            raise SecurityError(f"The listener {self._listener} cannot check tokens: there are no keys.")
        try:
            from coordinatord.transport.security.jwks import Jwks
        except ImportError:
            raise SecurityError(MISSING.format(what="OAUTHBEARER needs", package="PyJWT[crypto]")) from None
        keys = Jwks(url, own.sasl_oauthbearer_jwks_endpoint_refresh_ms, self._loop)
        signed = Signed(own, keys.find)
        return lambda: OAuthBearer(signed)
