"""A connection to PostgreSQL that is lost before or after a statement."""

from __future__ import annotations

from collections import deque
from typing import Any

from coordinatord.server.postgresql.database import Link
from tests.server.postgresql.model import LOST_AFTER, LOST_BEFORE


class LossyLink(Link):
    """`faults`: what becomes of the next executions of one statement: LOST_BEFORE, LOST_AFTER, or "" for nothing."""

    def __init__(self, url: str, statement: str) -> None:
        super().__init__(url)
        self.statement = statement
        self.faults: deque[str] = deque()

    def open(self) -> Any:
        return _Lossy(super().open(), self)


class _Lossy:
    def __init__(self, connection: Any, link: LossyLink) -> None:
        self._connection = connection
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        import psycopg

        fault = self._link.faults.popleft() if statement == self._link.statement and self._link.faults else ""
        if fault == LOST_BEFORE:
            raise psycopg.OperationalError("lost")
        result = self._connection.execute(statement, parameters)
        if fault == LOST_AFTER:
            raise psycopg.OperationalError("lost")
        return result
