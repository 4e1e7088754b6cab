"""A pytest plugin for kafka-python's own integration tests: the broker is one that runs already.

Their fixtures can use an external broker (`KAFKA_URI`), but the source distribution does not carry all they import:
`test/__init__.py`, without which Python's own package of that name is found first, and `test.service`, which starts
brokers as child processes. This stands in for both; the working directory is that of the unpacked distribution.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path


class ExternalService:
    """A service that somebody else starts and stops."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None: ...
    def close(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def dump_logs(self) -> None: ...

    def wait_for(self, pattern: str, timeout: float = 0) -> bool:
        return True


class SpawnedService(ExternalService):
    """Never used: no test that is run starts a broker."""

    def __init__(self, *args: object) -> None:
        raise RuntimeError("the broker is external")


def stand_in(name: str, **attributes: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module


stand_in("test", __path__=[str(Path.cwd() / "test")])
stand_in("test.service", ExternalService=ExternalService, SpawnedService=SpawnedService)
