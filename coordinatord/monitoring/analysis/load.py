"""How fast a coordinator loads a partition of the offsets log, at a start or when it takes it over."""

from __future__ import annotations

LOAD_RATE = 540_000
"""Records a second: Kafka 4.3 took 1.86 s for a million commits of 20,000 keys, with a cold JVM on two cores;
coordinatord took 1.35 s, 740,000 a second (`make bench ARGS="--only load"`). A run's option sets another rate."""
