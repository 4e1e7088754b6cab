"""Apache Kafka's own tests, as its published jars have them, on coordinatord and on Kafka.

    python -m tests.kafka_suites run kafka|coordinatord [CLASS…]     play classes, and keep what they found in found/
    python -m tests.kafka_suites table                               write the tables of docs/conformance.md

Many tests have a deadline of a minute: `--no-deadlines` after the side leaves it out, for a busy machine.

Kafka's `@ClusterTest`, and the `EmbeddedKafkaCluster` of Kafka Streams' tests, give each test a cluster in its own JVM
(`kafka-test-common-runtime`). The classes of `java/` are earlier on the class path and give it a `coordinatord serve`
instead, with the test's server properties: one process whatever number of brokers the test names, so topics have one
replica. The tests are not changed. A test that looks into objects of a broker, needs several brokers or other feature
levels is aborted with what it wanted, or fails and is in `NOT_APPLICABLE`; both are listed as not applicable.
"""
