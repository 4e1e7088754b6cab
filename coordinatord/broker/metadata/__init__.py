"""The cluster's own records, as Kafka's controllers log them: SCRAM credentials, quotas, ACLs."""
