"""Report sections about the `Kafka` of a failed test, and warnings about state that a test leaves behind."""

from __future__ import annotations

import contextlib
import datetime
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coordinatord.base.observe.logger import copied
from coordinatord.server.control.faults import NO_FAULT_FOR
from coordinatord.testing.problems import KafkaError
from coordinatord.testing.share_groups import ShareGroup, ShareGroupView
from coordinatord.testing.views import GroupView

if TYPE_CHECKING:
    from coordinatord.testing.kafka import Kafka
    from coordinatord.testing.links import Link

SHOWN_REBALANCES = 10
MAX_LOG_LINES = 2_000


def sections(kafka: Kafka) -> list[tuple[str, str]]:
    """Return (title, text) of each section: groups, faults, last requests. [] for an external broker."""
    link = kafka._server.link
    if kafka.is_elsewhere:
        return []
    found = []
    try:
        groups = [_group(link, name) for name in link.call("groups")["groups"]]
        faults, requests = link.call("all_faults")["faults"], link.call("last_requests")["last"]
    except KafkaError as error:
        return [("kafka", str(error))]
    if groups:
        found.append(("kafka: what the groups went through", "\n".join(groups)))
    if faults:
        told = [f"{each['description']}: {each['hits']} of {each['matched']} requests" for each in faults]
        found.append(("kafka: faults", "\n".join(told)))
    if requests:
        requests.pop(NO_FAULT_FOR, None)
        lines = [_requests(client, noted) for client, noted in sorted(requests.items())]
        found.append(("kafka: the last requests of each client", "\n".join(lines)))
    return found


def leftovers(kafka: Kafka) -> list[str]:
    """Return a sentence for each group with members whose client is connected, and for each open transaction.

    A member without a connection stays until its session ends, which is no mistake of the test: a client that had to
    rejoin with a new member id does not leave with the old one, and a static member does not leave when its client
    closes.
    """
    if kafka.is_elsewhere:
        return []
    link, found = kafka._server.link, []
    connected = link.call("last_requests")["connected"]
    for name in link.call("groups")["groups"]:
        view = GroupView.of(link.call("group", group=name))
        members = [each for each in view.members if each.instance_id is None and (each.client_id or "") in connected]
        if members:
            who = ", ".join(each.client_id or each.member_id for each in members)
            acquired = len(ShareGroup(link, name, kafka).acquired) if view.protocol == "share" else 0
            holding = f", which have {acquired} records acquired" if acquired else ""
            found.append(f"group {name} still has {len(members)} members ({who}){holding}: close them")
    for name in link.call("transactions")["transactions"]:
        if link.call("transaction", transactional_id=name)["state"] == "Ongoing":
            found.append(f"transactional id {name} has an open transaction: commit or abort it")
    return found


@contextlib.contextmanager
def logged(lines: list[str]) -> Iterator[None]:
    """Copy the last MAX_LOG_LINES lines of our log during the block to `lines`. The lines also go to the configured
    handlers, of which there may be none.
    """

    def copy(_name: str, level: int, event: str, fields: dict[str, Any]) -> None:
        told = " ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None)
        lines.append(f"{_time(time.time() * 1000)}  {logging.getLevelName(level):7} {event} {told}")
        del lines[:-MAX_LOG_LINES]

    with copied(copy):
        yield


def _group(link: Link, group_id: str) -> str:
    view = GroupView.of(link.call("group", group=group_id))
    if view.protocol == "share":
        shown = ShareGroupView.of(link.call("share_group", group=group_id))
        return "\n".join([_sentence(shown), *(f"  {each}" for each in shown.redeliveries[-SHOWN_REBALANCES:])])
    lines = [_sentence(view)]
    for each in view.rebalances[-SHOWN_REBALANCES:]:
        lines.append(f"  {_time(each.record['began_ms'])}  {each}")
    return "\n".join(lines)


def _sentence(view: object) -> str:
    return f"{view}"[0].upper() + f"{view}"[1:] + "."


def _requests(client: str, noted: list[dict[str, Any]]) -> str:
    told = []
    for each in noted:
        fault = f" [{each['fault']}]" if "fault" in each else ""
        told.append(f"  {_time(each['at_ms'])}  {each['api']} v{each['version']}{fault}")
    return "\n".join([f"{client or 'a client without an id'}:", *told])


def _time(at_ms: float) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
