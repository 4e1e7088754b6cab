"""A blocking client of any broker: a socket around `kafka_wire.client`."""
