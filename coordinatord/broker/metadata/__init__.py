"""Records of the cluster, as Kafka's controllers log them: SCRAM credentials, quotas, ACLs."""
