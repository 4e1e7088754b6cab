"""Mistakes in the core of consumer groups: each is shown by a story that was recorded from Kafka."""

from __future__ import annotations

from tests.mutants.tool import Mutant

_STORIES = "pytest tests/reference/test_stories.py::test_we_answer_what_kafka_answered"


def _told(where: str, old: str, new: str, story: str) -> Mutant:
    return Mutant(f"coordinatord.coordination.group.consumer.{where}", old, new, f"{_STORIES}[{story}]")


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "a partition is given to two members": _told(
        "reconcile:Reconciliation._next", "if partition not in given_up and self._is_owned(topic_id, partition):",
        "if False:", "consumer_without_interval"),
    "nobody is awaited": _told(
        "reconcile:Reconciliation._next", "has_unreleased = True", "has_unreleased = False",
        "consumer_list_reconciling"),
    "who says nothing has given up everything": _told(
        "reconcile:Reconciliation._still_owns", "if self._owned is None:\n            return True",
        "if self._owned is None:\n            return False", "consumer_without_interval"),
    "what is named is given up": _told(
        "reconcile:Reconciliation._still_owns", "return any(not ", "return all(not ", "consumer_rejoin_other_topics"),
    "partitions are a member's since ever": _told(
        "reconcile:Reconciliation._with", "kept.get(each, self._epoch)", "kept.get(each, 0)",
        "consumer_commit_older_epoch"),
    "the previous epoch is forgotten": _told(
        "reconcile:Reconciliation._moved", "member.moved(epoch, member.epoch, state", "member.moved(epoch, -1, state",
        "consumer_lost_answers"),
    "unsubscribed topics are kept until the next assignment": _told(
        "reconcile:Reconciliation._unsubscribed", "if not gone:", "if True:",
        "consumer_unsubscribes_within_the_interval"),
    "the previous epoch is never enough": _told(
        "validation:epoch_refusal", "and epoch == member.previous_epoch", "and False",
        "consumer_full_heartbeat_previous_epoch"),
    "the previous epoch is always enough": _told(
        "validation:epoch_refusal", "and _owns_all(member, owned)", "", "consumer_full_heartbeat_previous_epoch"),
    "an unknown or outdated member may go on": _told(
        "heartbeat:_refusal", "refusal = member_refusal(group.group_id, consumer, request)", "refusal = None",
        "consumer_full_heartbeat_previous_epoch"),
    "instance ids can be taken": _told(
        "validation:_static_refusal", "owner.epoch == LEAVING_FOR_NOW", "True", "consumer_static_unreleased"),
    "a member that comes back needs room": _told(
        "validation:size_refusal", "or (member_id and member_id in members)", "", "consumer_max_size"),
    "a full heartbeat is as any other": _told(
        "heartbeat:is_full", "return request", "return False and request", "consumer_full_heartbeat_stable"),
    "a new member without topics is a new epoch": _told(
        "heartbeat:_accept", "changed = said.topics != before.topics", "changed = said != before", "consumer_static"),
    "a refused upgrade disturbs nobody": _told(
        "upgrade:upgrade_refusal", "    _disturb(group, result)\n", "", "migration_upgrade_by_wrong_expression"),
    "an upgrade forgets who owns what": _told(
        "upgrade:_converted_member", "if member.assignment:", "if False:", "migration_upgrade_whole"),
    "custom assignors do not matter": _told(
        "upgrade:_converted_member", "if assignment.user_data:", "if False:", "migration_custom_assignor"),
    "an older epoch is never enough for a commit": _told(
        "commits:commit_refusal", "and not is_strict", "and False", "consumer_commit_older_epoch"),
    "an older epoch is always enough for a commit": _told(
        "commits:_is_since", "epoch >= since", "True", "consumer_commit_older_epoch"),
    "everybody may fetch": _told(
        "commits:fetch_refusal", "if epoch == member.epoch", "if True", "consumer_fetch_in_each_state"),
    "who is away keeps what it was giving up": _told(
        "leaving:_leave_for_now", "revoking={}", "revoking=member.revoking", "consumer_static_while_revoking"),
    "leaving raises no epoch": _told(
        "leaving:fence", "    raise_epoch(group, consumer, consumer.hash_of(surroundings.topics), members_went",
        "    (lambda *given: None)(members_went", "consumer_leaves_twice"),
    "a successor inherits nothing": _told(
        "leaving:replace_static_member", "consumer.target.get(old.member_id, {})", "{}",
        "consumer_static_away_with_new_target"),
    "classic members need not rejoin": _told(
        "classic_members:heartbeat", "member.epoch < consumer.assignment_epoch", "False", "migration_upgrade_whole"),
    "classic members may sync in any epoch": _told(
        "classic_members:sync", "if request.generation_id != member.epoch:", "if False:", "migration_sync_refused"),
    "any protocol is common": _told(
        "classic_members:_supports", "== consumer.classic_members", ">= 0", "migration_join_refused"),
    "a classic group has other members' targets": _told(
        "downgrade:become_classic_group", "target = targets.get(member.member_id, {})", "target = {}",
        "migration_downgrade_by_heartbeat"),
    "what an expression matches is no new epoch": _told(
        "patterns:_resolved", "        raise_epoch(group, consumer, metadata_hash, trigger, now_ms, result)\n", "",
        "consumer_expression_null_names"),
    "an unused expression is kept": _told(
        "patterns:update_expression", "if old and not consumer.expressions[old]:", "if False:",
        "consumer_offset_delete_after_expression"),
    "nobody has to give up partitions in time": _told(
        "sessions:await_revocation", "now_ms + member.rebalance_timeout_ms", "now_ms * 2",
        "consumer_rebalance_timeout"),
    "nobody looks whether partitions are given up": _told(
        "heartbeat:reconcile", "if after.state is MemberState.UNREVOKED_PARTITIONS:", "if False:",
        "consumer_rebalance_timeout"),
    "the interval does not matter": _told(
        "group_epoch:update_target", "now_ms < computed_ms + interval_ms", "False", "consumer_assignment_interval"),
    "the assignor that is asked for last counts": _told(
        "group_epoch:preferred_assignor", "key=asked.__getitem__", "key=[*asked].index", "consumer_assignor_tie"),
}
# fmt: on
