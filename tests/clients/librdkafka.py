"""Clients of librdkafka that live in the process of a test."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def admin_client(bootstrap: str, **settings: str | int) -> AdminClient:
    """An AdminClient that is never destroyed; `settings` as librdkafka has them, with `_` for `.`.

    librdkafka 2.16 destroys a client by waiting for its threads. On a busy machine the thread of a broker that was
    asked about groups now and then waits for ever, and the test with it, in C. (Issues of librdkafka tell of requests
    that keep hold of their broker after they have timed out.) One reference more, which nobody gives back, keeps the
    client until the process ends.
    """
    from confluent_kafka.admin import AdminClient

    config = {key.replace("_", "."): value for key, value in settings.items()}
    made = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **config})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made
