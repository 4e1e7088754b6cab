"""Members and their coordinator on one virtual clock: what do timeouts, crashes and deployments cost? See README.md."""
