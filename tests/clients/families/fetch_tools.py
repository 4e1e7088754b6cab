"""Download or compile what tests with Kafka and with foreign clients need, so that no test waits for it.

    python -m tests.clients.families.fetch_tools            everything
    python -m tests.clients.families.fetch_tools NAME...    the tools whose names begin with one of these

A tool that is not available is printed and is no error here: a test that needs it fails or is skipped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tests.clients import test_examples
from tests.clients.families import clients, test_librdkafka_suite, test_own_suites, toolchains
from tests.clients.families.toolchains import ToolMissing
from tests.clients.surface.families import FAMILIES
from tests.reference.broker import ReferenceUnavailable, kafka_libs

TOOLS: dict[str, Callable[[], object]] = {
    "Apache Kafka": kafka_libs,
    **{client.name: client.command for client in clients.CLIENTS},
    **{f"{family.name}, every method": family.command for family in FAMILIES},
    "examples in Java": test_examples.java,
    "examples in Go": test_examples.go,
    "Spark's Kafka source": clients.spark,
    "librdkafka's tests": lambda: toolchains.librdkafka_tests(test_librdkafka_suite.VERSION),
    "kafka-python's tests": lambda: toolchains.source("kafka-python", test_own_suites.VERSION),
}


def main(prefixes: tuple[str, ...]) -> None:
    for name, have in TOOLS.items():
        if not name.startswith(prefixes):
            continue
        began_s = time.monotonic()
        try:
            have()
        except (ToolMissing, ReferenceUnavailable) as missing:
            print(f"{name}: {missing}")
        else:
            print(f"{name}: {time.monotonic() - began_s:.1f} s")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or ("",))
