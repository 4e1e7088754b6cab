"""rebalances: what happened, for how long, and why: from coordinatord's ledger, or inferred from a plain Kafka log."""

from __future__ import annotations

from coordinatord.pipeline.tables.table import Column

COLUMNS = (
    Column("group_id", "string", ""),
    Column("group_type", "string", "`classic`, or `consumer` (KIP-848), whose generations are called epochs"),
    Column("generation_before", "int", "null where the log does not have it any more"),
    Column("generation", "int", "the one that came of it"),
    Column(
        "outcome",
        "string",
        "`completed`; `empty`: nobody was left; `superseded` by another one (of classic groups only our ledger knows); "
        "`reconciling`: an epoch that not all members have reached yet; `stopped`: the coordinator stopped serving the "
        "group, says our ledger",
    ),
    Column("began_ms", "bigint", "when it began; of a classic group without ledger an estimate within the bounds"),
    Column("began_after_ms", "bigint", "it began at this moment or later"),
    Column("began_before_ms", "bigint", "it began at this moment or before"),
    Column(
        "joined_ms",
        "bigint",
        "when all members had rejoined, or, of an epoch, the target assignment was made; null where that was not, or "
        "the log does not tell",
    ),
    Column(
        "ended_ms",
        "bigint",
        "when it was over: the generation was logged, or each member had what the target of the epoch gives it, or "
        "the next epoch began; null while it is reconciling",
    ),
    Column("initial", "boolean", "the group was empty before"),
    Column("protocol", "string", "the assignor that was chosen; null where members of an epoch left it to the broker"),
    Column("leader", "string", "the member that assigned; the coordinator does in epochs"),
    Column("members_before", "int", ""),
    Column("members", "int", "after it"),
    Column("added", "int", "members that are new; a static one that restarted is added and removed"),
    Column("removed", "int", "members that are gone"),
    Column("kept", "int", "members that stayed"),
    Column("skipped_generations", "int", "generations in between that came to nothing, or that the cleaner took"),
    Column("partitions_before", "int", "that were assigned; null of an epoch for which no target was made"),
    Column("partitions_moved", "int", "of those: assigned to another member; a static one stays the same"),
    Column("partitions_revoked", "int", "of those: assigned to nobody"),
    Column("stickiness", "double", "share of those that stayed where they were, 0 to 1"),
    Column(
        "missed_commit_ms",
        "bigint",
        "by how much their commits came later than usual, summed over partitions (of an epoch: those that moved)",
    ),
    Column(
        "trigger",
        "string",
        "`new member`, `member left`, `session expired`, …: in the ledger's words; of epochs also "
        "`subscription changed`, `topics changed`, `regular expression resolved`, `assignor changed`, "
        "`no revocation in time`, `converted from the classic protocol`",
    ),
    Column("trigger_member_id", "string", "the member that did it, where it was one"),
    Column("trigger_client_id", "string", "its client.id"),
    Column("client_reason", "string", "the client's own reason (KIP-800); only our ledger has it"),
    Column("cause", "string", "in words: what happened, or what it is inferred from"),
    Column("how", "string", "`observed` by our ledger, or `inferred`"),
    Column("confidence", "double", "that the trigger is right: 1 where it was observed"),
)
