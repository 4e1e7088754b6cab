"""The core of consumer groups with one mistake each, and the recorded story that shows it.

A mistake is made in the source of one function: that function is compiled anew with it, in its own module, and stands
wherever the other one was imported.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

PACKAGE = "coordinatord.coordination.group.consumer"


class Mutant(NamedTuple):
    """`function` of a module of coordinatord.coordination.group.consumer, or Class.method; `source` is in it once."""

    function: str
    source: str
    instead: str
    story: str


MUTANTS: dict[str, Mutant] = {
    "a partition is given to two members": Mutant(
        "reconcile.Reconciliation._next",
        "if partition not in given_up and self._is_owned(topic_id, partition):",
        "if False:",
        "consumer_without_interval",
    ),
    "nobody is awaited": Mutant(
        "reconcile.Reconciliation._next", "has_unreleased = True", "has_unreleased = False", "consumer_list_reconciling"
    ),
    "who says nothing has given up everything": Mutant(
        "reconcile.Reconciliation._still_owns",
        "if self._owned is None:\n            return True",
        "if self._owned is None:\n            return False",
        "consumer_without_interval",
    ),
    "what is named is given up": Mutant(
        "reconcile.Reconciliation._still_owns",
        "return any(not ",
        "return all(not ",
        "consumer_rejoin_other_topics",
    ),
    "partitions are a member's since ever": Mutant(
        "reconcile.Reconciliation._with",
        "kept.get(each, self._epoch)",
        "kept.get(each, 0)",
        "consumer_commit_older_epoch",
    ),
    "the previous epoch is forgotten": Mutant(
        "reconcile.Reconciliation._moved",
        "member.moved(epoch, member.epoch, state",
        "member.moved(epoch, -1, state",
        "consumer_lost_answers",
    ),
    "unsubscribed topics are kept until the next assignment": Mutant(
        "reconcile.Reconciliation._unsubscribed",
        "if not gone:",
        "if True:",
        "consumer_unsubscribes_within_the_interval",
    ),
    "the previous epoch is never enough": Mutant(
        "validation.epoch_refusal",
        "and epoch == member.previous_epoch",
        "and False",
        "consumer_full_heartbeat_previous_epoch",
    ),
    "the previous epoch is always enough": Mutant(
        "validation.epoch_refusal", "and _owns_all(member, owned)", "", "consumer_full_heartbeat_previous_epoch"
    ),
    "instance ids can be taken": Mutant(
        "validation._static_refusal", "owner.epoch == LEAVING_FOR_NOW", "True", "consumer_static_unreleased"
    ),
    "a member that comes back needs room": Mutant(
        "validation.size_refusal", "or (member_id and member_id in members)", "", "consumer_max_size"
    ),
    "a full heartbeat is as any other": Mutant(
        "heartbeat.is_full", "return request", "return False and request", "consumer_full_heartbeat_stable"
    ),
    "a new member without topics is a new epoch": Mutant(
        "heartbeat._accept", "changed = said.topics != before.topics", "changed = said != before", "consumer_static"
    ),
    "a refused upgrade disturbs nobody": Mutant(
        "upgrade.upgrade_refusal", "    _disturb(group, result)\n", "", "migration_upgrade_by_wrong_expression"
    ),
    "an upgrade forgets who owns what": Mutant(
        "upgrade._converted_member", "if member.assignment:", "if False:", "migration_upgrade_whole"
    ),
    "custom assignors do not matter": Mutant(
        "upgrade._converted_member", "if assignment.user_data:", "if False:", "migration_custom_assignor"
    ),
    "an older epoch is never enough for a commit": Mutant(
        "commits.commit_refusal", "and not is_strict", "and False", "consumer_commit_older_epoch"
    ),
    "an older epoch is always enough for a commit": Mutant(
        "commits._is_since", "epoch >= since", "True", "consumer_commit_older_epoch"
    ),
    "everybody may fetch": Mutant(
        "commits.fetch_refusal", "if epoch == member.epoch", "if True", "consumer_fetch_in_each_state"
    ),
    "who is away keeps what it was giving up": Mutant(
        "leaving._leave_for_now", "revoking={}", "revoking=member.revoking", "consumer_static_while_revoking"
    ),
    "leaving raises no epoch": Mutant(
        "leaving.fence",
        "    raise_epoch(group, consumer, consumer.hash_of(surroundings.topics), members_went",
        "    (lambda *given: None)(members_went",
        "consumer_leaves_twice",
    ),
    "a successor inherits nothing": Mutant(
        "leaving.replace_static_member",
        "consumer.target.get(old.member_id, {})",
        "{}",
        "consumer_static_away_with_new_target",
    ),
    "classic members need not rejoin": Mutant(
        "classic_members.heartbeat", "member.epoch < consumer.assignment_epoch", "False", "migration_upgrade_whole"
    ),
    "classic members may sync in any epoch": Mutant(
        "classic_members.sync", "if request.generation_id != member.epoch:", "if False:", "migration_sync_refused"
    ),
    "any protocol is common": Mutant(
        "classic_members._supports", "== consumer.classic_members", ">= 0", "migration_join_refused"
    ),
    "a classic group has other members' targets": Mutant(
        "downgrade.become_classic_group",
        "target = targets.get(member.member_id, {})",
        "target = {}",
        "migration_downgrade_by_heartbeat",
    ),
    "what an expression matches is no new epoch": Mutant(
        "patterns._resolved",
        "        raise_epoch(group, consumer, metadata_hash, trigger, now_ms, result)\n",
        "",
        "consumer_expression_null_names",
    ),
    "an unused expression is kept": Mutant(
        "patterns.update_expression",
        "if old and not consumer.expressions[old]:",
        "if False:",
        "consumer_offset_delete_after_expression",
    ),
    "nobody has to give up partitions in time": Mutant(
        "sessions.await_revocation", "now_ms + member.rebalance_timeout_ms", "now_ms * 2", "consumer_rebalance_timeout"
    ),
    "nobody looks whether partitions are given up": Mutant(
        "heartbeat.reconcile",
        "if after.state is MemberState.UNREVOKED_PARTITIONS:",
        "if False:",
        "consumer_rebalance_timeout",
    ),
    "the interval does not matter": Mutant(
        "group_epoch.update_target", "now_ms < computed_ms + interval_ms", "False", "consumer_assignment_interval"
    ),
    "the assignor that is asked for last counts": Mutant(
        "group_epoch.preferred_assignor", "key=asked.__getitem__", "key=[*asked].index", "consumer_assignor_tie"
    ),
}


def mutated(mutant: Mutant) -> tuple[Any, str, Any, Any]:
    """Where the function is, its name there, the function, and the same with the mistake."""
    name, *path = mutant.function.split(".")
    module = importlib.import_module(f"{PACKAGE}.{name}")
    holder: Any = module
    for part in path[:-1]:
        holder = getattr(holder, part)
    original = getattr(holder, path[-1])
    source = inspect.getsource(original)
    assert source.count(mutant.source) == 1, mutant
    made: dict[str, Any] = {}
    code = compile(
        "from __future__ import annotations\n" + textwrap.dedent(source.replace(mutant.source, mutant.instead)),
        mutant.function,
        "exec",
    )
    exec(code, module.__dict__ | {}, made)
    function = type(original)(made[path[-1]].__code__, module.__dict__, path[-1], original.__defaults__)
    function.__kwdefaults__ = original.__kwdefaults__
    return holder, path[-1], original, function


@contextmanager
def mistaken(mutant: Mutant) -> Iterator[None]:
    """Within this block the function has the mistake, wherever it was imported."""
    holder, name, original, function = mutated(mutant)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(holder, name, function))
        for module in [each for key, each in sys.modules.items() if key.startswith("coordinatord.")]:
            if getattr(module, name, None) is original:
                stack.enter_context(mock.patch.object(module, name, function))
        for table in [each for key, each in sys.modules.items() if key.startswith(PACKAGE)]:
            handlers = getattr(table, "HANDLERS", {})
            changed = {key: function for key, each in handlers.items() if each is original}
            stack.enter_context(mock.patch.dict(handlers, changed))
        yield
