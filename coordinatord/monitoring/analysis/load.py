"""The rate at which a coordinator loads a partition of the offsets log,
at a start or when it takes the partition over.
"""

from __future__ import annotations

LOAD_RATE = 540_000
"""Records per second: Kafka 4.3 took 1.86 s for a million commits of 20,000 keys, with a cold
JVM on two cores; coordinatord took 1.35 s, 740,000 per second (`make bench ARGS="--only load"`).
An option of `pipeline run` sets another rate.
"""
