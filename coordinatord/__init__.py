"""A Kafka-wire-protocol group coordinator. ARCHITECTURE.md has the map and follows three requests."""
