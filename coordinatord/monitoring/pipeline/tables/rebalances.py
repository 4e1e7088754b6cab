"""rebalances: their course, duration and cause, from coordinatord's ledger, or inferred from a plain Kafka log."""

from __future__ import annotations

from coordinatord.monitoring.pipeline.tables.table import Column

COLUMNS = (
    Column("group_id", "string", ""),
    Column("group_type", "string", "`classic`, or `consumer` (KIP-848), whose generations are called epochs"),
    Column("generation_before", "int", "null if the log no longer has it"),
    Column("generation", "int", "the resulting generation"),
    Column(
        "outcome",
        "string",
        "`completed`; `empty`: no members were left; `superseded` by another one (for classic groups only from our "
        "ledger); `reconciling`: an epoch that some members have not reached yet; `stopped`: the coordinator stopped "
        "serving the group (only from our ledger)",
    ),
    Column("began_ms", "bigint", "when it began; for a classic group without ledger an estimate within the bounds"),
    Column("began_after_ms", "bigint", "lower bound of began_ms"),
    Column("began_before_ms", "bigint", "upper bound of began_ms"),
    Column(
        "joined_ms",
        "bigint",
        "when all members had rejoined, or, for an epoch, the target assignment was made; null if that did not happen,"
        " or the log does not tell",
    ),
    Column(
        "ended_ms",
        "bigint",
        "when it ended: the generation was logged, or each member had its target assignment of the epoch, or the next "
        "epoch began; null while it is reconciling",
    ),
    Column("initial", "boolean", "the group was empty before"),
    Column("protocol", "string", "the chosen assignor; null if the members of an epoch left it to the broker"),
    Column("leader", "string", "the member that made the assignment; in epochs the coordinator does"),
    Column("members_before", "int", ""),
    Column("members", "int", "members after it"),
    Column(
        "added",
        "int",
        "new members; a restarted static member counts as added and as removed; null if the log no longer has the "
        "generation before",
    ),
    Column("removed", "int", "departed members; null as `added` is"),
    Column("kept", "int", "members that stayed; null as `added` is"),
    Column(
        "skipped_generations",
        "int",
        "generations in between that did not complete, or whose records the cleaner removed",
    ),
    Column("partitions_before", "int", "assigned before; null for an epoch without a target assignment"),
    Column(
        "partitions_moved",
        "int",
        "of those: assigned to another member; a restarted static member counts as the same",
    ),
    Column("partitions_revoked", "int", "of those: assigned to no member"),
    Column("stickiness", "double", "share of those that stayed with their member, 0 to 1"),
    Column(
        "missed_commit_ms",
        "bigint",
        "how much later than usual their commits came, summed over partitions (for an epoch: over those that moved)",
    ),
    Column(
        "trigger",
        "string",
        "`new member`, `member left`, `session expired`, …: in the ledger's words; for epochs also `subscription "
        "changed`, `topics changed`, `regular expression resolved`, `assignor changed`, `no revocation in time`, `no "
        "rejoin in time`, `converted from the classic protocol`",
    ),
    Column("trigger_member_id", "string", "the member that caused it, if a member did"),
    Column("trigger_client_id", "string", "its client.id"),
    Column("client_reason", "string", "the client's own reason (KIP-800); only our ledger has it"),
    Column("cause", "string", "in words: what happened, or the evidence for it"),
    Column("how", "string", "`observed` by our ledger, or `inferred`"),
    Column("confidence", "double", "probability that the trigger is right; 1 if it was observed"),
)
