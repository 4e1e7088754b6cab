"""Chapters of the stories: subjects, and the KIP that specifies the chapter's behaviour."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chapter:
    """Stories of one subject. `names` matches the whole name of each of its stories; a story belongs to the first
    chapter that matches.
    """

    title: str
    kip: str
    names: str

    def has(self, story: str) -> bool:
        return re.fullmatch(self.names, story) is not None


CHAPTERS = (
    Chapter("Consumer groups: migration to and from the classic protocol", "KIP-848", r"migration_.*"),
    Chapter("Consumer groups: expressions", "KIP-848", r"consumer_expression.*"),
    Chapter("Consumer groups: static members", "KIP-848", r"consumer_(static|commits_of_static).*"),
    Chapter("Consumer groups: offsets", "KIP-848", r"consumer_(commit|fetch|offset).*"),
    Chapter("Consumer groups: heartbeats, assignment and admin", "KIP-848", r"consumer_.*"),
    Chapter("Share groups", "KIP-932", r"share_.*"),
    Chapter("Member ids given first", "KIP-394", r"pending_.*|join_(member_id_required|pending|without).*|.*_pending"),
    Chapter("Static members", "KIP-345", r"static_.*|.*_static(_.*)?|heartbeat_static|join_fenced"),
    Chapter("Leaving, one or several members", "KIP-345", r"leave_.*"),
    Chapter("Group size limit", "KIP-389", r"(group_)?max_size.*|new_member_limit"),
    Chapter("Initial rebalance delay", "KIP-134", r"initial_delay.*"),
    Chapter("Rebalances and their timeout", "KIP-62", r"rebalance_.*|rejoin_.*|vote_.*"),
    Chapter("Sessions", "", r"session_.*|heartbeat_.*"),
    Chapter("JoinGroup", "", r"join_.*"),
    Chapter("SyncGroup", "", r"sync_.*"),
    Chapter("Retention of offsets", "KIP-211", r"commit_retention.*"),
    Chapter("Deleting offsets", "KIP-496", r"offset_delete_.*"),
    Chapter("Stable offsets", "KIP-447", r"fetch_require_stable|transactional_offsets.*"),
    Chapter("Committing offsets", "", r"commit_.*"),
    Chapter("Fetching offsets", "KIP-709", r"fetch_.*"),
    Chapter("Finding coordinators", "KIP-699", r"find_.*"),
    Chapter("Listing groups", "KIP-518", r"list_.*"),
    Chapter("Describing and deleting groups", "", r"describe_.*|delete_.*"),
    Chapter("Transactions", "KIP-98", r"transaction.*|idempotent_.*"),
    Chapter("Topics, Produce and Fetch", "", r"topics(_.*)?|produce_.*|racks|replicas|throttled_.*|min_insync_.*"),
    Chapter("Versions", "KIP-511", r"(api_|unsupported_|.*_)?versions?(_.*)?"),
    Chapter("Malformed requests, closed connections", "", r"malformed.*|closed_connections"),
)


def chapter_of(story: str) -> Chapter:
    """Return the chapter of a story. Raises LookupError if no chapter has it."""
    for chapter in CHAPTERS:
        if chapter.has(story):
            return chapter
    raise LookupError(f"no chapter has the story {story}: see categories.py")
