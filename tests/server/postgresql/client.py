"""The store's own code for appends (PostgresStore) over the model of the database, in the place of the model's.

So what is done about a commit whose fate is not known is the code that does it with PostgreSQL, and needs no driver.
tests/server/postgresql/test_client.py holds it to PostgreSQL.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

from coordinatord.server.postgresql.contract import Growth, Row, Unusable
from coordinatord.server.postgresql.schema import DIVERGED
from coordinatord.server.postgresql.store import APPEND, RESOLVE, PostgresStore
from tests.server.postgresql.model import ModelDatabase, ModelStore

T = TypeVar("T")


class ServerError(Exception):
    """What the driver would raise."""

    sqlstate = DIVERGED


class ClientStore(ModelStore):
    """contract.Store over a ModelDatabase, whose appends are PostgresStore's."""

    def __init__(self, database: ModelDatabase, term: int) -> None:
        super().__init__(database, term)
        self.client = Client(self)

    def append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        self.client.append(growths, rows)


class Client(PostgresStore):
    """PostgresStore with one connection to the model, and nothing else."""

    def __init__(self, model: ModelStore) -> None:
        self.term = model.term
        self.appending_since_s = None
        self.appends = self.retries = self.resolved = 0
        self._psycopg = SimpleNamespace(Error=ServerError)
        self._stopped = threading.Event()
        self._writing: Any = None
        self._model = model

    def pause(self) -> None:
        self._model.pause()

    def _on(self, link: Any, what: str, work: Callable[[Any], T], attempts: int = 1) -> T:
        return work(Connection(self._model))

    def _parameters(self, growths: Sequence[Growth], rows: Sequence[Row]) -> tuple[Any, ...]:
        return growths, rows


class Connection:
    """Executes what an append and a look at its fate consist of."""

    def __init__(self, model: ModelStore) -> None:
        self._model = model

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def execute(self, statement: str, parameters: tuple[Any, ...]) -> Any:
        model, database = self._model, self._model._database
        if statement == APPEND:
            growths, rows = parameters
            return database.change(model.term, lambda: self._append(growths, rows), may_be_lost=True)
        if statement == RESOLVE:
            wanted = set(zip(*parameters, strict=True))
            found = database.change(model.term, lambda: list(database.partitions.items()), may_be_lost=True)
            rows = [
                (key.topic_id, key.partition, model.term, end)
                for key, (_topic, end) in found
                if (key.topic_id, key.partition) in wanted
            ]
            return SimpleNamespace(fetchall=lambda: rows)
        assert "coordinatord_fence" in statement
        return database.change(model.term, lambda: None)

    def _append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        """As the function in the database: other ends than these are an error, whoever has moved them."""
        partitions = self._model._database.partitions
        if any(partitions.get(each.key, ("", 0))[1] != each.end_before for each in growths):
            raise Unusable("a partition ends elsewhere") from ServerError()
        self._model._append(growths, rows)
