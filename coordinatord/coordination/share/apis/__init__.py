"""ShareFetch and ShareAcknowledge: from the request to the share partitions."""
