"""Routing of commands among several workers: a command reaches the right worker whichever worker's admin port gets it.

A command about a group goes to the worker that leads the group, a command about a transaction to the worker of its
coordinator; commands about faults, the clock and lists go to all workers. Below /test/here/ a worker responds for
itself alone; workers send their requests to each other there. All functions are called on threads of the admin port.

A version (`change_notifier.py`) counts the changes of one worker, so a version of several workers also encodes its
worker: `changed` waits at that worker. The state of all workers together has the sum of their versions; no event ends a
wait for that sum, so such a wait polls every LOOK_S.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from coordinatord.server.control.change_notifier import MAX_WAIT_S
from coordinatord.server.control.commands import BY_NAME, HERE, ROOT
from coordinatord.server.control.problems import ControlError
from coordinatord.server.control.requests import LAST
from coordinatord.transport.cluster.moved_partitions import MovedPartitions
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partitioner import partition_for

LOOK_S = 0.05
"""Interval in seconds between two reads of the versions of all workers."""

TIMEOUT_S = 40.0
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # addresses to connect to, for addresses to bind

Run = Callable[[str, dict[str, Any]], dict[str, Any]]


class Across:
    """The router of commands in one worker. `run` runs a command in this process. `count` returns the number of
    partitions that a coordinators' topic has, or gets.
    """

    def __init__(
        self, nodes: Nodes, placed: MovedPartitions, host: str, token: str | None, run: Run, count: Callable[[str], int]
    ) -> None:
        self._nodes = nodes
        self._placed = placed
        self._host = ANY_HOST.get(host, host)
        self._token = token
        self._run = run
        self._count = count
        self._everybody = range(placed.workers)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the response of the command. Raises ControlError."""
        if "group" in arguments and name != "add_fault":
            return self._versioned(self._leader(GROUPS, arguments["group"]), name, arguments)
        if "transactional_id" in arguments:
            return self._versioned(self._leader(TRANSACTIONS, arguments["transactional_id"]), name, arguments)
        together = getattr(self, f"_{name}", None)
        if together is not None:
            found: dict[str, Any] = together(**arguments)
            return found
        return self._versioned(self._nodes.worker, name, arguments)

    # Where things are

    def _leader(self, topic: str, name: str) -> int:
        return self._nodes.worker_of(topic, partition_for(name, self._count(topic)))

    def _ask(self, worker: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if worker == self._nodes.worker:
            return self._run(name, dict(arguments))
        command, port = BY_NAME[name], self._placed.admin_port(worker)
        path, query = command.place(arguments)
        path = f"{ROOT}{HERE}{path.removeprefix(ROOT)}"
        asking = http.client.HTTPConnection(self._host, port, timeout=TIMEOUT_S)
        try:
            if not port:
                raise ConnectionError("it has died, and its successor has not begun")
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            asking.request(command.method, f"{path}?{urlencode(query)}" if query else path, headers=headers)
            answer = asking.getresponse()
            told: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ControlError(f"Worker {worker} does not answer: {error}.", 503) from None
        finally:
            asking.close()
        if answer.status != http.client.OK:
            raise ControlError(str(told.get("error", told)), answer.status)
        return told

    def _all(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        return [self._ask(worker, name, arguments) for worker in self._everybody]

    def _some(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return the responses of the workers that have it: a worker that has restarted since lacks the faults made
        before. Raises ControlError if no worker has it.
        """
        found, missing = [], None
        for worker in self._everybody:
            try:
                found.append(self._ask(worker, name, arguments))
            except ControlError as error:
                if error.status != http.client.NOT_FOUND:
                    raise
                missing = error
        if missing is not None and not found:
            raise missing
        return found

    # Versions

    def _versioned(self, worker: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        told = self._ask(worker, name, arguments)
        return told | {"version": self._version(told["version"], worker)} if "version" in told else told

    def _version(self, version: int, worker: int) -> int:
        return version * (self._placed.workers + 1) + worker

    def _changed(self, since: int = -1, timeout_ms: int = 0) -> dict[str, Any]:
        if since < 0:
            return {"version": self._version(self._together(), self._placed.workers)}
        version, worker = divmod(since, self._placed.workers + 1)
        if worker < self._placed.workers:
            return self._versioned(worker, "changed", {"since": version, "timeout_ms": timeout_ms})
        ends_s = time.monotonic() + min(timeout_ms / 1000, MAX_WAIT_S)
        while (now := self._together()) <= version and time.monotonic() < ends_s:
            time.sleep(LOOK_S)
        return {"version": self._version(now, worker)}

    def _together(self) -> int:
        return sum(each["version"] for each in self._all("changed"))

    # Commands for all

    def _groups(self) -> dict[str, Any]:
        return {"groups": sorted(name for each in self._all("groups") for name in each["groups"])}

    def _transactions(self) -> dict[str, Any]:
        return {"transactions": sorted(name for each in self._all("transactions") for name in each["transactions"])}

    def _advance(self, by_ms: int) -> dict[str, Any]:
        return {"now_ms": max(each["now_ms"] for each in self._all("advance", by_ms=by_ms))}

    def _reset(self) -> dict[str, Any]:
        self._all("reset")
        return {}

    def _last_requests(self) -> dict[str, Any]:
        last: dict[str, list[dict[str, Any]]] = {}
        counts: dict[str, dict[str, int]] = {}
        connected: set[str] = set()
        for each in self._all("last_requests"):
            connected.update(each["connected"])
            for client, noted in each["last"].items():
                last.setdefault(client, []).extend(noted)
            for client, by_api in each["counts"].items():
                own = counts.setdefault(client, {})
                for api, count in by_api.items():
                    own[api] = own.get(api, 0) + count
        for noted in last.values():
            noted.sort(key=lambda request: int(request["at_ms"]))
            del noted[:-LAST]
        return {"last": last, "counts": counts, "connected": sorted(connected)}

    # Faults: each worker has its own, which count its own requests

    def _add_fault(self, **arguments: Any) -> dict[str, Any]:
        number = self._placed.next_fault()
        return _summed(self._all("add_fault", **(arguments | {"number": number})))

    def _all_faults(self) -> dict[str, Any]:
        by_number: dict[int, list[dict[str, Any]]] = {}
        for each in self._all("all_faults"):
            for fault in each["faults"]:
                by_number.setdefault(fault["fault"], []).append(fault)
        return {"faults": [_summed(by_number[number]) for number in sorted(by_number)]}

    def _fault(self, fault: int) -> dict[str, Any]:
        version = self._together()  # a change after this read ends a wait for this version
        return _summed(self._some("fault", fault=fault)) | {"version": self._version(version, self._placed.workers)}

    def _remove_fault(self, fault: int) -> dict[str, Any]:
        return _summed(self._some("remove_fault", fault=fault))

    def _release(self, fault: int, count: int | None = None) -> dict[str, Any]:
        if count is None:
            return {"released": sum(each["released"] for each in self._some("release", fault=fault))}
        released = 0
        for worker in self._everybody:
            if released < count:
                arguments = {"fault": fault, "count": count - released}
                released += self._ask(worker, "release", arguments)["released"]
        return {"released": released}


def _summed(faults: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one fault with the sums of its counts at all workers."""
    sums = {name: sum(each[name] for each in faults) for name in ("matched", "hits", "held")}
    return faults[0] | sums
