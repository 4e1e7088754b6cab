"""The address of a database, its driver, and the text of its errors.

The address is libpq's URI: several hosts, TLS (sslmode, sslrootcert …) and `passfile` are its parameters. A password
does not belong in a setting or on a command line, but in PGPASSWORD or in a file (`passfile`, PGPASSFILE).
"""

from __future__ import annotations

import os
from typing import Any

SCHEMES = ("postgresql://", "postgres://")

DEFAULTS = {
    "target_session_attrs": "read-write",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "coordinatord",
}
"""Default parameters of the address."""

IDLE_IN_TRANSACTION_MS = 5_000
"""Time in ms after which the server ends an idle transaction of this process, for example if the process was stopped in
it.
"""

LOCK_MS = 5_000
"""The longest wait for a lock, in ms. A session of a stopped process may hold the lock; then the change is
tried again.
"""


class Unreadable(Exception):
    """Raised if there is no driver, the address is invalid, or the address has a password in it; the message is one
    sentence.
    """


def is_address(text: str) -> bool:
    """Return whether this is the address of a database, and not a file."""
    return text.startswith(SCHEMES)


def import_psycopg(what: str) -> Any:
    """Return the driver. Raises Unreadable, with the package to install, if it is missing. `what` names the feature
    that needs it.
    """
    try:
        import psycopg
    except ImportError as error:
        raise Unreadable(f"{what} needs psycopg ({error}): pip install 'coordinatord[postgresql]'") from None
    return psycopg


def parameters(url: str, what: str) -> dict[str, str]:
    """Return the parameters of a URI. `what` names the purpose of the address. Raises Unreadable."""
    psycopg = import_psycopg(f"{what}=postgresql://")
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise Unreadable(f"{what} is not an address of PostgreSQL: {str(error).strip()}") from None
    if given.get("password"):
        raise Unreadable(
            f"{what} has a password in it, which others could read: set PGPASSWORD, or name a file with "
            "?passfile=PATH (lines of host:port:database:user:password)"
        )
    ours = f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_MS} -c lock_timeout={LOCK_MS}"
    options = f"{ours} {given.pop('options', '')}".strip()
    return {**DEFAULTS, **{name: str(value) for name, value in given.items()}, "options": options}


def shown(given: dict[str, str]) -> str:
    """Return the hosts and the database of an address' parameters, for output."""
    return f"{given.get('host', os.environ.get('PGHOST', 'local'))}/{given.get('dbname', '')}"


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
