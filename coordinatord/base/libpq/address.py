"""The address of a database, its driver, and what an error of it says.

The address is libpq's URI: several hosts, TLS (sslmode, sslrootcert …) and `passfile` are its parameters. A password
does not belong in a setting or on a command line: PGPASSWORD, or a file (`passfile`, PGPASSFILE), has it.
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
"""Where the address says nothing else."""

IDLE_IN_TRANSACTION_MS = 5_000
"""The server ends a transaction of ours that says nothing for so long, as when this process is stopped in it."""

LOCK_MS = 5_000
"""The longest wait for a lock, which a session of a stopped process may hold; then the change is tried again."""


class Unreadable(Exception):
    """There is no driver, the address is none, or it has a password in it: one sentence."""


def is_address(text: str) -> bool:
    """Whether this names a database, and no file."""
    return text.startswith(SCHEMES)


def import_psycopg(what: str) -> Any:
    """The driver; Unreadable, with what to install, if it is not there. `what` needs it."""
    try:
        import psycopg
    except ImportError as error:
        raise Unreadable(f"{what} needs psycopg ({error}): pip install 'coordinatord[postgresql]'") from None
    return psycopg


def parameters(url: str, what: str) -> dict[str, str]:
    """The parameters of a URI. `what` is it that the address was given for. Raises Unreadable."""
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
    """The hosts and the database of an address' parameters, for people."""
    return f"{given.get('host', os.environ.get('PGHOST', 'local'))}/{given.get('dbname', '')}"


def told(error: Exception) -> str:
    """The first line of an error."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
