"""A listener's TLS context: made from `ssl.*` settings, and made again when the files have changed.

PEM needs Python alone; PKCS #12 needs the package `cryptography` (`pip install coordinatord[security]`). A connection
keeps the context that it began with: new certificates apply to new connections.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Final

from coordinatord.base.config.security import SecuritySettings
from coordinatord.base.observe.logger import get_logger
from coordinatord.transport.security import MISSING, SecurityError

LOOK_EVERY_S: Final = 1.0
"""Minimum time between two checks of the files; the first handshake after that time checks them."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

log = get_logger("coordinatord.transport.security")


class Speaking(ssl.SSLObject):
    """A TLS session that leaves its alert to the code that closes the socket: when a handshake fails, asyncio does not
    send the alert that gives the client the reason. Kafka's clients retry without an alert, and stop with one.
    """

    _outgoing: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> Any:
        made = super()._create(incoming, outgoing, *args, **named)  # type: ignore[misc]
        made._outgoing = outgoing
        return made

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.alert = self._outgoing.read()  # type: ignore[attr-defined]
            raise


class Tls:
    """The TLS of one listener: `context()` is called for each new connection. Raises SecurityError if the settings
    cannot be used at the start.
    """

    def __init__(self, settings: SecuritySettings, listener: str, now_s: Callable[[], float]) -> None:
        self._settings = settings
        self._listener = listener
        self._now_s = now_s
        self._files = [each for each in (settings.ssl_keystore_location, settings.ssl_truststore_location) if each]
        self._seen = self._stamps()
        self._looked_s = now_s()
        self._context = make_context(settings, listener)

    def context(self) -> ssl.SSLContext:
        """Return the context of the next connection."""
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._read_again()
        return self._context

    def _read_again(self) -> None:
        try:
            self._context = make_context(self._settings, self._listener)
        except SecurityError as error:  # perhaps half of a change: the next change causes another read
            log.warning("the changed certificates are not used", listener=self._listener, reason=str(error))
        else:
            log.info("certificates read again", listener=self._listener)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """Return a fingerprint of the files' contents."""
        found: list[tuple[int, int, int] | None] = []
        for name in self._files:
            try:
                status = os.stat(name)
            except OSError:
                found.append(None)
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return found


def make_context(settings: SecuritySettings, listener: str) -> ssl.SSLContext:
    """Make a context from the settings. Raises SecurityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = Speaking
    versions = [_VERSIONS[name] for name in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if context.maximum_version >= ssl.TLSVersion.TLSv1_3:
        # A client chooses the group of the key exchange. For a hello with ffdhe8192 the server computes two powers of
        # 8,192 bits, which takes a hundred milliseconds. Python has no call for a list of groups before 3.15.
        context.set_ecdh_curve("prime256v1")
    # As in Java, everything in the truststore is trusted: a root, an intermediate authority or the client's own
    # certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        _load_key(context, settings)
        context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
        if context.verify_mode != ssl.CERT_NONE:
            _load_trusted(context, settings)
    except SecurityError as error:
        raise SecurityError(f"The listener {listener} cannot be served: {error}") from error
    return context


def _load_key(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    where, password = settings.ssl_keystore_location, settings.ssl_key_password or ""
    try:
        if where is None:
            text = f"{settings.ssl_keystore_key}\n{settings.ssl_keystore_certificate_chain}\n"
            with _temporary(text.encode()) as path:
                context.load_cert_chain(path, password=password)
        elif settings.ssl_keystore_type == "PKCS12":
            content, password = _pkcs12_as_pem(where, settings.ssl_keystore_password)
            with _temporary(content) as path:
                context.load_cert_chain(path, password=password)
        else:
            context.load_cert_chain(where, password=password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SecurityError(
            f"{where or 'ssl.keystore.key'} is no readable {settings.ssl_keystore_type} with a key and its "
            f"certificates: {_why(error)}."
        ) from error


def _load_trusted(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    where = settings.ssl_truststore_location
    try:
        if where is None:
            context.load_verify_locations(cadata=settings.ssl_truststore_certificates)
        elif settings.ssl_truststore_type == "PKCS12":
            context.load_verify_locations(cadata=_pkcs12_certificates(where, settings.ssl_truststore_password))
        else:
            context.load_verify_locations(where)
    except (OSError, ValueError) as error:
        raise SecurityError(
            f"{where or 'ssl.truststore.certificates'} is no readable {settings.ssl_truststore_type} with "
            f"certificates: {_why(error)}."
        ) from error


def _pkcs12_as_pem(where: str, password: str | None) -> tuple[bytes, str]:
    """Return (PEM with an encrypted key, its password): OpenSSL reads keys only from files."""
    serialization, pkcs12 = _cryptography()
    with open(where, "rb") as file:
        store = pkcs12.load_pkcs12(file.read(), None if password is None else password.encode())
    if store.key is None or store.cert is None:
        raise ValueError("there is no key in it")
    secret = secrets.token_urlsafe(32)
    key = store.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(secret.encode()),
    )
    chain = [store.cert, *store.additional_certs]
    return key + b"".join(each.certificate.public_bytes(serialization.Encoding.PEM) for each in chain), secret


def _pkcs12_certificates(where: str, password: str | None) -> str:
    serialization, pkcs12 = _cryptography()
    with open(where, "rb") as file:
        store = pkcs12.load_pkcs12(file.read(), None if password is None else password.encode())
    found = [each for each in (store.cert, *store.additional_certs) if each is not None]
    return "".join(each.certificate.public_bytes(serialization.Encoding.PEM).decode() for each in found)


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise SecurityError(MISSING.format(what="PKCS #12 needs", package="cryptography")) from None
    return serialization, pkcs12


@contextlib.contextmanager
def _temporary(content: bytes) -> Iterator[str]:
    """Create a file that only this user can read; it exists as long as the block lasts."""
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        yield path
    finally:
        os.unlink(path)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).rstrip(".")
