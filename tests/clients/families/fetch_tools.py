"""Have everything that the tiers with Kafka and with foreign clients download or compile: `.ci/run` begins with it.

What cannot be had is told and is no error here; the tests that need it say what becomes of that.
"""

from __future__ import annotations

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


def main() -> None:
    for name, have in TOOLS.items():
        began_s = time.monotonic()
        try:
            have()
        except (ToolMissing, ReferenceUnavailable) as missing:
            print(f"{name}: {missing}")
        else:
            print(f"{name}: {time.monotonic() - began_s:.1f} s")


if __name__ == "__main__":
    main()
