"""Client side of a group: a consumer that finds its coordinator, joins, syncs, heartbeats, polls and leaves."""
