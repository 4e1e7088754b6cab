"""A Kafka-wire-protocol group coordinator. README.md follows one JoinGroup through the code."""
