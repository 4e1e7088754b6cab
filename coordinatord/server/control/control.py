"""The object that all commands call: `Control`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from coordinatord.server.control import clock, groups, share_groups, transactions
from coordinatord.server.control.change_notifier import Changes
from coordinatord.server.control.faults import Fault, Faults
from coordinatord.server.control.moves import Moves
from coordinatord.server.control.node import Node
from coordinatord.server.control.requests import Requests
from kafka_wire.registry import API_NAMES


class Control:
    """The control of one daemon, whose router `requests` replaces. All methods must be called on the event loop;
    `commands.py` describes their parameters. They raise ControlError.
    """

    def __init__(self, node: Node, faults: Faults | None = None) -> None:
        """`faults` are those of an earlier daemon, which continue."""
        self.node = node
        self.changes = Changes(node.loop)
        self.faults = faults or Faults()
        self.requests = Requests(node, self.faults, self.changes)
        self.moves = Moves(node, self.changes.tell)
        node.coordinator.step = self._watched(node.coordinator.step)
        node.transactions.step = self._watched(node.transactions.step)
        self.shared = share_groups.Counts(lambda: node.loop.call_soon(self.changes.tell))
        if node.share is not None:
            node.share.delivery.partitions.observers.append(self.shared)

    def _watched(self, step: Callable[[Any, Any, int], Any]) -> Callable[[Any, Any, int], Any]:
        """Return a step that also ends the waits for a change, after its result has been applied."""
        tell, call_soon = self.changes.tell, self.node.loop.call_soon

        def watched(state: Any, event: Any, now_ms: int) -> Any:
            result = step(state, event, now_ms)
            # Nearly all steps are heartbeats, whose result is a constant without any of these.
            if result.transitions or result.replies or getattr(result, "records", None) or _has_news(result):
                call_soon(tell)
            return result

        return watched

    # Reading

    async def changed(self, since: int = -1, timeout_ms: int = 0) -> dict[str, Any]:
        return {"version": await self.changes.wait(since, timeout_ms / 1000)}

    async def groups(self) -> dict[str, Any]:
        return {"groups": groups.names(self.node)}

    async def group(self, group: str) -> dict[str, Any]:
        return {"version": self.changes.version, **groups.show(self.node, group)}

    async def share_group(self, group: str) -> dict[str, Any]:
        version = self.changes.version
        shown = share_groups.show(self.node, self.shared, group)
        return {"version": version, **groups.show(self.node, group), **shown}

    async def transactions(self) -> dict[str, Any]:
        return {"transactions": transactions.names(self.node)}

    async def transaction(self, transactional_id: str) -> dict[str, Any]:
        return transactions.show(self.node, transactional_id)

    async def clock(self) -> dict[str, Any]:
        return {"now_ms": self.node.now_ms()}

    async def last_requests(self) -> dict[str, Any]:
        """Return the last requests of each client, the latest last; the number of requests of each API; and the client
        ids of open connections.
        """
        last = {
            client: [
                {
                    "at_ms": each.at_ms,
                    "api": API_NAMES.get(each.api, str(each.api)),
                    "version": each.version,
                    **({"fault": each.fault} if each.fault else {}),
                }
                for each in noted
            ]
            for client, noted in self.requests.last.items()
        }
        counts: dict[str, dict[str, int]] = {}
        for (client, api), count in self.requests.counts.items():
            counts.setdefault(client, {})[API_NAMES.get(api, str(api))] = count
        connected = sorted({each.client_id or "" for each in self.node.connections.open})
        return {"last": last, "counts": counts, "connected": connected}

    # Verbs

    async def rebalance(self, group: str, reason: str = "a test") -> dict[str, Any]:
        return {"generation_before": groups.rebalance(self.node, group, reason)}

    async def expire(self, group: str, member: str) -> dict[str, Any]:
        return {"member_id": groups.expire(self.node, group, member)}

    async def kick(self, group: str, member: str) -> dict[str, Any]:
        return {"member_id": groups.kick(self.node, group, member)}

    async def expire_lock(self, group: str, member: str | None = None, offset: int | None = None) -> dict[str, Any]:
        member_id = None if member is None else groups.member_id(self.node, group, member)
        return {"records": share_groups.expire_lock(self.node, group, offset, member_id)}

    async def release_records(self, group: str, member: str) -> dict[str, Any]:
        member_id = groups.member_id(self.node, group, member)
        return {"records": share_groups.release(self.node, group, member_id)}

    async def move(self, group: str) -> dict[str, Any]:
        await self.moves.move(group)
        self._watch_searches()
        self.changes.tell()
        return {}

    async def begin_loading(self, group: str) -> dict[str, Any]:
        self.moves.begin_loading(group)
        return {}

    async def end_loading(self, group: str) -> dict[str, Any]:
        await self.moves.end_loading(group)
        return {}

    async def expire_transaction(self, transactional_id: str) -> dict[str, Any]:
        transactions.expire(self.node, transactional_id)
        return {}

    async def advance(self, by_ms: int) -> dict[str, Any]:
        return {"now_ms": await clock.advance(self.node, by_ms)}

    # Faults

    async def add_fault(self, kind: str, api: str | None = None, **more: Any) -> dict[str, Any]:
        made = self.faults.add(kind, api=api, **more)
        self.requests.begun(made)
        return shown(made)

    async def all_faults(self) -> dict[str, Any]:
        removed = [shown(each, is_active=False) for each in self.faults.removed]
        return {"faults": [*removed, *map(shown, self.faults)]}

    async def fault(self, fault: int) -> dict[str, Any]:
        return {"version": self.changes.version, **shown(self.faults.find(fault))}

    async def release(self, fault: int, count: int | None = None) -> dict[str, Any]:
        return {"released": self.requests.release(self.faults.find(fault), count)}

    async def remove_fault(self, fault: int) -> dict[str, Any]:
        removed = self.faults.remove(fault)
        self.requests.ended(removed)
        self.changes.tell()
        return shown(removed, is_active=False)

    async def reset(self) -> dict[str, Any]:
        """End all faults, and undo moves and loading states. The clock stays ahead."""
        for number in list(self.faults.active):
            await self.remove_fault(number)
        self.faults.removed.clear()
        await self.moves.end_all()
        return {}

    def close(self) -> None:
        """Release all stopped requests, because the daemon stops."""
        for each in list(self.faults):
            self.requests.release(each)
        self.requests.close()

    def _watch_searches(self) -> None:
        def found(group_ids: list[str]) -> None:
            self.moves.searched(group_ids)
            if not self.moves.awaits_search:
                self.requests.on_found = None

        self.requests.on_found = found


def _has_news(result: Any) -> bool:
    """Return whether a result contains a group's offsets or members, or a transaction's record."""
    return bool(getattr(result, "offsets", None) or getattr(result, "changes", None) or getattr(result, "record", None))


def shown(fault: Fault, *, is_active: bool = True) -> dict[str, Any]:
    """Return a fault as JSON."""
    return {
        "fault": fault.number,
        "description": fault.description(),
        "is_active": is_active,
        "matched": fault.matched,
        "hits": fault.hits,
        "held": fault.held,
    }


async def run_on(control: Control, call: Callable[[Control], Any]) -> Any:
    """Return `call(control)`, awaited on the loop."""
    return await call(control)


def run_from_thread(control: Control, call: Callable[[Control], Any], timeout_s: float) -> Any:
    """Run `call(control)` on the loop from another thread, and wait. Raises the exceptions of the call, and
    TimeoutError.
    """
    return asyncio.run_coroutine_threadsafe(run_on(control, call), control.node.loop).result(timeout_s)
