"""Settings of ACLs and quotas: Kafka's names and defaults. They are rows of the one table (settings.py)."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket

from coordinatord.base.config.security import SecuritySettings
from coordinatord.base.config.setting_types import Unacceptable, boolean, integer, parsed, text
from kafka_wire.java import trim

INT_MAX = 2**31 - 1
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _authorizer(value: object) -> str:
    name = text(value)
    if name not in ("", STANDARD_AUTHORIZER):
        raise Unacceptable(f"must be empty or {STANDARD_AUTHORIZER}: there is no other authorizer here")
    return name


def _principals(value: object) -> tuple[str, ...]:
    """Parse `User:alice;User:bob`: separated by semicolons, because the names of certificates have commas."""
    found = []
    for each in text(value).split(";"):
        if principal := trim(each):
            principal_type, colon, name = principal.partition(":")
            if not (principal_type and colon and name):
                raise Unacceptable(f"must be principals as in User:alice;User:bob, not {principal!r}")
            found.append(principal)
    return tuple(found)


def _per_address(value: object) -> tuple[tuple[str, int], ...]:
    """Parse `HOST:COUNT,…`; a host is an address, or a name that is looked up at once."""
    found: list[tuple[str, int]] = []
    for each in text(value).split(","):
        if not trim(each):
            continue
        host, _, count = trim(each).rpartition(":")
        if not host or not count.isdigit():
            raise Unacceptable("must be a list of ADDRESS:COUNT, as in 127.0.0.1:100,10.0.0.7:5")
        try:
            address = str(ipaddress.ip_address(host.strip("[]")))
        except ValueError:
            try:
                address = str(socket.getaddrinfo(host, None)[0][4][0])
            except OSError:
                raise Unacceptable(f"names a host that cannot be found: {host}") from None
        found.append((address, int(count)))
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class AdmissionSettings(SecuritySettings):
    """The settings of permissions and quotas."""

    authorizer_class_name: str = parsed(
        "", _authorizer, "text", f"{STANDARD_AUTHORIZER} checks ACLs; without it every client may do everything."
    )
    super_users: tuple[str, ...] = parsed(
        (),
        _principals,
        "list of TYPE:NAME, with semicolons",
        "Principals that may do everything, whatever the ACLs.",
        ours="a setting of Kafka's StandardAuthorizer",
    )
    allow_everyone_if_no_acl_found: bool = boolean(
        False,
        "Allow every operation on a resource that no ACL names.",
        ours="a setting of Kafka's StandardAuthorizer",
    )
    max_connections_per_ip: int = integer(INT_MAX, "Maximum number of client connections from one address.", minimum=0)
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = parsed(
        (),
        _per_address,
        "list of ADDRESS:COUNT",
        "Maximum number of client connections from these addresses.",
        ours="one text in Kafka",
    )
    max_connection_creation_rate: int = integer(
        INT_MAX, "New client connections per second; further ones are accepted later.", minimum=0
    )
    quota_window_num: int = integer(11, "Samples that are kept for quotas of clients.", minimum=1)
    quota_window_size_seconds: int = integer(1, "The length of each sample in seconds.", minimum=1)
    controller_quota_window_num: int = integer(11, "Samples that are kept for controller_mutation_rate.", minimum=1)
    controller_quota_window_size_seconds: int = integer(1, "The length of each sample in seconds.", minimum=1)
