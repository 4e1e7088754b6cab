"""The list of known differences between Kafka's answers and ours: what stories say, and what no story can.

    python -m tests.reference.differences        write DIFFERENCES.md; record.py does so, too

A story says it where it happens (`---- ours: why`, see story.py). What is a matter of chance in Kafka, or of sizes, is
below; random programs are compared word by word, and the module that is named takes it out before the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinatord.testing.conform.story import Story, all_stories

LIST = Path(__file__).parent / "DIFFERENCES.md"


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that stays. `where` is a story and its line, or the module that allows for it."""

    what: str
    reason: str
    where: str


ALLOWED = (
    Known(
        "which member leads after the leader has left, or has not rejoined in time",
        "Kafka takes the first member in the order of a java.util.HashMap of random ids, which is in effect "
        "random; we take the member that joined first",
        "tests/reference/leader_choice.py",
    ),
    Known(
        "the order of members in JoinGroup and DescribeGroups, and of groups in ListGroups and DeleteGroups",
        "Kafka's is that of a java.util.HashMap, ours is the order of arrival",
        "coordinatord/testing/conform/normalized.py",
    ),
    Known(
        "which of several sessions expires first when they expire at the same instant",
        "Kafka's order is that of a java.util.HashMap, and determines the longest remaining rebalance timeout; "
        "programs give each member a different session timeout",
        "tests/reference/random_requests.py",
    ),
    Known(
        "which comes first when a member's session and the group's rebalance end within a tenth of a second",
        "the timers of each broker have their own resolution and load; such programs are left out and counted",
        "tests/reference/random_programs.py",
    ),
    Known(
        "a group with metadata that Kafka cannot decode",
        "Kafka fails on it and never answers again; programs use valid metadata, a story covers invalid metadata",
        "tests/reference/random_requests.py",
    ),
    Known(
        "the target assignment of a consumer group in which a member reads nothing, when it is computed by a request "
        "that changes no subscription",
        "Kafka takes the group for a homogeneous one if it was one before the request, and may then take the topics of "
        "the member that reads nothing for those of all: nobody owns anything until the next epoch; we assign",
        "tests/reference/consumer_choices.py",
    ),
    Known(
        "JoinGroup of a member id that is not known, to a consumer group without members",
        "both refuse it, but Kafka has forgotten the group by then, though its log has it still and brings it back "
        "with the next load; we keep it, and random programs do not ask for it",
        "tests/reference/consumer_player.py",
    ),
    Known(
        "a member of the consumer protocol that joins again under another instance id",
        "Kafka keeps the earlier id in memory, and refuses everybody who comes with it once the member has left, until "
        "the next load; we free it, and random programs keep to one instance id",
        "tests/reference/consumer_requests.py",
    ),
    Known(
        "limits",
        "Kafka limits neither the ids that it hands out to members that never come back, nor the length of a group "
        "id beyond what its log takes, nor a member's metadata; we refuse requests beyond our limits: "
        "GROUP_MAX_SIZE_REACHED, INVALID_GROUP_ID and POLICY_VIOLATION",
        "coordinatord/coordination/group/classic/joining.py",
    ),
    Known(
        "before the first FindCoordinator",
        "Kafka answers it COORDINATOR_NOT_AVAILABLE and creates `__consumer_offsets` meanwhile; until then it answers "
        "requests of groups NOT_COORDINATOR. We create the topic at the first FindCoordinator or request of a group, "
        "and serve at once. Several leading nodes on PostgreSQL have it from the start",
        "coordinatord/coordination/service/groups.py",
    ),
    Known(
        "Metadata of a topic that is not there yet",
        "with auto.create.topics.enable Kafka answers UNKNOWN_TOPIC_OR_PARTITION once, and makes the topic meanwhile; "
        "we answer when it is there",
        "coordinatord/broker/topics/describe.py",
    ),
    Known(
        "DeleteTopics of an internal topic",
        "Kafka deletes `__consumer_offsets` and makes it again; we answer INVALID_REQUEST",
        "coordinatord/broker/topics/admin.py",
    ),
    Known(
        "IncrementalAlterConfigs of a broker",
        "what Kafka changes while it runs changes here, too, but for `listeners`, which needs a restart; settings of "
        "TLS and SASL, which are kept without effect (certificates are read again when their files change); and "
        "`log.flush.interval.ms` and `log.cleaner.backoff.ms`, which are kept without effect, too. The values are kept "
        "in `groups.json`, not in the metadata log",
        "coordinatord/broker/topics/broker_configs.py",
    ),
    Known(
        "when EndTxn is answered",
        "Kafka answers when the decision is durable; until the markers are written it answers further requests "
        "CONCURRENT_TRANSACTIONS, which clients retry after 20 ms or more. We answer one flush later, when the "
        "markers are durable, so that committed records can be read and the next transaction can begin",
        "coordinatord/coordination/transactions/steps.py",
    ),
    Known(
        "SyncGroup while the group's partition is loading",
        "Kafka 4 answers COORDINATOR_LOAD_IN_PROGRESS, which its consumer does not expect there: poll() raises. We "
        "answer REBALANCE_IN_PROGRESS, as Kafka's former coordinator did, and the member rejoins",
        "coordinatord/coordination/service/apis/membership.py",
    ),
    Known(
        "a request behind a parked one that is never answered (its member was removed, or sent it again on another "
        "connection)",
        "Kafka does not process it and leaves the connection silent until the client's timeout; we close the "
        "connection",
        "coordinatord/transport/net/connection.py",
    ),
    Known(
        "DescribeGroups of a group with pending members only",
        "Kafka describes what is durable and writes nothing for them: GROUP_ID_NOT_FOUND until any group's next "
        "record in the same partition of its log, Empty afterwards. We answer Empty at once",
        "coordinatord/coordination/service/apis/admin.py",
    ),
    Known(
        "TxnOffsetCommit while the group's partition is loading",
        "Kafka first checks whether the group takes part in the transaction, then whether its partition is loaded. "
        "We answer COORDINATOR_LOAD_IN_PROGRESS first: the log that says which groups take part is still being "
        "read",
        "coordinatord/coordination/service/apis/txn_offset_commit.py",
    ),
    Known(
        "while a transaction completes",
        "for a Produce of v12 or later Kafka retries for 100 ms before it answers CONCURRENT_TRANSACTIONS; we "
        "answer it at once",
        "coordinatord/broker/topics/produce.py",
    ),
    Known(
        "when a transaction times out",
        "Kafka checks every transaction.abort.timed.out.transaction.cleanup.interval.ms, ten seconds; we set a timer",
        "coordinatord/coordination/transactions/coordinator.py",
    ),
    Known(
        "a partition that refuses a marker of our own coordinator",
        "if the producer id has a newer epoch there, Kafka leaves the transaction in PrepareCommit or "
        "PrepareAbort; we complete it",
        "coordinatord/coordination/transactions/markers.py",
    ),
    Known(
        "regular expressions that are large",
        "those of subscriptions and of ListTransactions may have 8,192 characters and, compiled, 10,000 instructions. "
        "Kafka has no limit, and `((a{1000}){1000}){1000}` exhausts its memory",
        "coordinatord/coordination/group/consumer/expressions.py",
    ),
    Known(
        "regular expressions about which RE2 and RE2/J disagree",
        "Kafka uses RE2/J, we use RE2. RE2 also accepts `\\C`, scripts of newer versions of Unicode, group names "
        "beyond ASCII or twice, and `{*`; RE2/J also accepts `\\p{Unknown}` and a backslash before a letter beyond "
        "ASCII. A few rejected patterns get another description of their error",
        "coordinatord/coordination/group/consumer/expressions.py",
    ),
    Known(
        "invalid records of a produced batch",
        "of each batch the answer names the first 10,000, which take 800 KB; Kafka names all",
        "protocol/kafka_wire/records/produced.py",
    ),
    Known(
        "a compacted topic without new records",
        "Kafka begins a new segment only at an append, so it does not compact the records of the active segment "
        "until then, however old they are. We also go by the segment's age: segment.ms, or max.compaction.lag.ms "
        "if that is less",
        "coordinatord/broker/log/cleanable.py",
    ),
    Known(
        "batches without records in a compacted log",
        "both keep the last such batch of an active producer; we also keep the last one of each rewritten segment, "
        "which is needed to finish an interrupted swap",
        "coordinatord/broker/log/cleaning.py",
    ),
    Known(
        "when a leader epoch begins",
        "Kafka begins two at each start and writes a checkpoint for each partition. We begin one where records may be "
        "lost: at a start without a clean stop, in `log repair`, in a take-over on PostgreSQL, in an import. It is one "
        "number for all partitions of a data directory, so epochs may be left out, and the checkpoint is written with "
        "the first record of the epoch. After a clean stop the epoch continues",
        "coordinatord/broker/log/data_dir.py",
    ),
    Known(
        "limits of the share coordinator",
        "Kafka limits neither the share partitions nor their state batches, and fails on a batch that ends before it "
        "begins. We have max.share.partitions, 10,000 batches of a share partition and a million of all: "
        "POLICY_VIOLATION beyond; INVALID_REQUEST for such a batch, and for one with a negative offset",
        "coordinatord/coordination/share/coordinator/step.py",
    ),
    Known(
        "the order of topics and partitions in the responses of the share coordinator",
        "Kafka's is that of a java.util.HashMap, ours is that of the request",
        "coordinatord/coordination/share/apis/state.py",
    ),
    Known(
        "a share partition whose log start moved behind its window while records of the window were acquired",
        "when their locks end, Kafka moves the start offset back to the end of the window, and forward again with the "
        "next fetch; ours never moves back",
        "coordinatord/coordination/share/partition/window.py",
    ),
    Known(
        "a share partition whose start offset is one that compaction has removed",
        "Kafka's start offset stays there for good, so the window fills up; ours passes them",
        "coordinatord/coordination/share/partition/window.py",
    ),
    Known(
        "a ShareFetch when the window of the share partition is full and compaction has removed its last records",
        "Kafka's SharePartition fails (IllegalArgumentException); we archive these records and acquire nothing",
        "coordinatord/coordination/share/partition/acquire.py",
    ),
    Known(
        "an aborted record batch that begins below the start offset, where nothing is in delivery",
        "Kafka's SharePartition fails (IllegalStateException); we archive the records of the batch",
        "coordinatord/coordination/share/partition/acquire.py",
    ),
    Known(
        "a dead letter that is larger than its topic's max.message.bytes with the key and the value of its record",
        "Kafka writes none; we write it without key and value",
        "coordinatord/coordination/share/letter_records.py",
    ),
    Known(
        "records that are released while the log start moves into their batch",
        "Kafka's SharePartition fails when it acquires the rest of the batch (IllegalArgumentException); we acquire it",
        "coordinatord/coordination/share/partition/acquire.py",
    ),
    Known(
        "records below the log start that are in the same record batch as the log start",
        "Kafka may deliver them to a share group after DeleteRecords; we do not",
        "coordinatord/coordination/share/partition/acquire.py",
    ),
    Known(
        "ShareFetch with a batch_size below 1",
        "Kafka's acquired records then include ranges that end before they begin; we take 1",
        "coordinatord/coordination/share/partition/new_batches.py",
    ),
    Known(
        "locks of a share partition that end at the same moment",
        "Kafka persists each of them by itself; we persist them together, and write their dead letters by offset",
        "coordinatord/coordination/share/partition/release.py",
    ),
    Known(
        "an acknowledgement of records below and above the start offset when nothing is in delivery",
        "Kafka fails on it (UNKNOWN_SERVER_ERROR for the whole request); we respond with INVALID_RECORD_STATE for the "
        "partition",
        "coordinatord/coordination/share/partition/acknowledge.py",
    ),
    Known(
        "when a waiting ShareFetch gets records that another member has released",
        "Kafka looks again when the start offset has moved, or at the end of the wait; we look when the release is "
        "persisted",
        "coordinatord/coordination/share/partition/writes.py",
    ),
    Known(
        "records that become available while the request of a client waits that has disconnected",
        "Kafka may acquire them for it, and they are locked until the lock ends; we acquire nothing for it",
        "coordinatord/coordination/share/apis/fetch.py",
    ),
    Known(
        "ShareFetch of a client that is over its quota of fetched bytes",
        "Kafka responds without the records that it has locked for the client; we respond with them, and throttle",
        "coordinatord/server/access/throttling.py",
    ),
    Known(
        "share sessions of more than 2,000 partitions, or of more than 64 MiB together",
        "Kafka has no such limit; we respond with SHARE_SESSION_LIMIT_REACHED",
        "coordinatord/coordination/share/sessions.py",
    ),
)
"""What no story tells."""

HEAD = """\
# Known differences from Apache Kafka 4.4

Made by `python -m tests.reference.differences`. The stories are in `coordinatord/testing/conform/stories/`; each shows
what Kafka answers and what we answer. All other answers in a story are the same in both.
"""

_ASKED = {"?": "a late answer", "<": "a late answer", "frame": "a frame", "bytes": "bytes"}


def told(stories: list[Story] | None = None) -> Iterator[Known]:
    """What the stories say themselves, all of them unless given."""
    for story in all_stories() if stories is None else stories:
        for step in story.steps:
            if step.reason:
                asked = f"{step.api} v{step.version}" if step.api else _ASKED[step.kind]
                yield Known(asked, step.reason, story.name)


def text(stories: list[Story]) -> str:
    """The whole list."""
    out = [HEAD, "| story | request | why our answer differs |", "|---|---|---|"]
    out += [f"| {known.where} | {known.what} | {known.reason} |" for known in told(stories)]
    out += ["", "## Outside the stories", ""]
    out += [f"- **{known.what[0].upper()}{known.what[1:]}.** {known.reason} (`{known.where}`)." for known in ALLOWED]
    return "\n".join(out) + "\n"


def main() -> None:
    LIST.write_text(text(all_stories()))


if __name__ == "__main__":
    main()
