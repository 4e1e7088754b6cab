"""All commands: their parameters, and their paths under /test/ on the admin port. The OpenAPI document is made of
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from coordinatord.server.control.problems import ControlError

ROOT: Final = "/test"
HERE: Final = "/here"
"""The path below ROOT at which one of several workers responds for itself alone."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command. `kind` is OpenAPI's: string, integer, number or boolean."""

    name: str
    kind: str
    about: str
    required: bool = False

    def read(self, text: str) -> Any:
        """Return the value of this text. Raises ControlError."""
        try:
            if self.kind == "integer":
                return int(text)
            if self.kind == "number":
                return float(text)
        except ValueError:
            raise ControlError(f"{self.name} is a number, not {text!r}.") from None
        if self.kind == "boolean":
            if text.lower() not in ("true", "false"):
                raise ControlError(f"{self.name} is true or false, not {text!r}.")
            return text.lower() == "true"
        return text


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `name` is the method of Control. A parameter in braces in `path` is taken from the request's path."""

    name: str
    method: str
    path: str
    about: str
    parameters: tuple[Parameter, ...] = ()

    def place(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """Return the path with its parameters, and the query."""
        path, query = f"{ROOT}{self.path}", {}
        for name, value in arguments.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if f"{{{name}}}" in self.path:
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            elif value is not None:
                query[name] = text
        return path, query

    def arguments(self, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the arguments of a request for `path` (below /test); None if `path` is not this command's. Raises
        ControlError.
        """
        asked, own = path.split("/"), self.path.split("/")
        if len(asked) != len(own):
            return None
        texts = dict(query)
        for part, pattern in zip(asked, own, strict=True):
            if pattern.startswith("{"):
                texts[pattern[1:-1]] = unquote(part)
            elif part != pattern:
                return None
        known = {each.name: each for each in self.parameters}
        for name in texts:
            if name not in known:
                raise ControlError(f"There is no parameter {name!r}. There are {', '.join(known) or 'none'}.")
        for each in self.parameters:
            if each.required and each.name not in texts:
                raise ControlError(f"The parameter {each.name} is missing: {each.about}")
        return {name: known[name].read(text) for name, text in texts.items()}


GROUP = Parameter("group", "string", "The group's id.", True)
MEMBER = Parameter("member", "string", "A member id, client id or group.instance.id.", True)
TRANSACTION = Parameter("transactional_id", "string", "The transactional id.", True)
FAULT = Parameter("fault", "integer", "The number of a fault.", True)

FAULT_PARAMETERS = (
    Parameter("kind", "string", "fail, delay, hold, drop, disconnect or duplicate.", True),
    Parameter("api", "string", "The API's name, such as OffsetCommit; without it, any."),
    Parameter("error", "string", "Kafka's name of the error, such as NOT_COORDINATOR; with fail."),
    Parameter("client", "string", "Hit requests with this client id."),
    Parameter("group", "string", "Hit requests that name this group."),
    Parameter("delay_ms", "integer", "How long delay waits."),
    Parameter("after", "boolean", "With drop and disconnect: when the request has been processed."),
    Parameter("times", "integer", "Hit so many requests, and no more."),
    Parameter("nth", "integer", "Hit only this one of those that match, counted from 1."),
    Parameter("every", "integer", "Hit each n-th one."),
    Parameter("probability", "number", "Hit so many of them, as the seed decides."),
    Parameter("number", "integer", "The fault's number; without it, the next."),
)

COMMANDS: Final = (
    Command("changed", "GET", "/changes", "Wait until something has changed.", (
        Parameter("since", "integer", "The version that was seen last."),
        Parameter("timeout_ms", "integer", "How long to wait at most."),
    )),
    Command("groups", "GET", "/groups", "The groups."),
    Command("group", "GET", "/groups/{group}", "State, members and rebalances of a group.", (GROUP,)),
    Command("share_group", "GET", "/share-groups/{group}", "A share group: also its share partitions, with what "
            "members have acquired, and its redeliveries.", (GROUP,)),
    Command("expire_lock", "POST", "/share-groups/{group}/expire-lock", "End the locks of acquired records.", (
        GROUP, Parameter("member", "string", "Only those of this member."),
        Parameter("offset", "integer", "Only those of records with this offset."),
    )),
    Command("release_records", "POST", "/share-groups/{group}/members/{member}/release", "Release what a member has "
            "acquired.", (GROUP, MEMBER)),
    Command("rebalance", "POST", "/groups/{group}/rebalance", "Make a group rebalance.", (
        GROUP, Parameter("reason", "string", "What the ledger of rebalances says about it."),
    )),
    Command("expire", "POST", "/groups/{group}/members/{member}/expire", "End a member's session.", (GROUP, MEMBER)),
    Command("kick", "POST", "/groups/{group}/members/{member}/kick", "Remove a member.", (GROUP, MEMBER)),
    Command("move", "POST", "/groups/{group}/move", "NOT_COORDINATOR until the coordinator is found anew: with several "
            "workers, at another one.", (GROUP,)),
    Command("begin_loading", "POST", "/groups/{group}/loading", "COORDINATOR_LOAD_IN_PROGRESS from now on.", (GROUP,)),
    Command("end_loading", "DELETE", "/groups/{group}/loading", "The coordinator is loaded.", (GROUP,)),
    Command("transactions", "GET", "/transactions", "The transactional ids."),
    Command("transaction", "GET", "/transactions/{transactional_id}", "A transactional id.", (TRANSACTION,)),
    Command("expire_transaction", "POST", "/transactions/{transactional_id}/expire", "Abort its open transaction, "
            "as if its time-out had passed.", (TRANSACTION,)),
    Command("clock", "GET", "/clock", "The server's time."),
    Command("advance", "POST", "/clock/advance", "Let the server's clock jump ahead.", (
        Parameter("by_ms", "integer", "By how much.", True),
    )),
    Command("all_faults", "GET", "/faults", "All faults since the last reset."),
    Command("add_fault", "POST", "/faults", "Make a fault.", FAULT_PARAMETERS),
    Command("fault", "GET", "/faults/{fault}", "A fault and its hits.", (FAULT,)),
    Command("release", "POST", "/faults/{fault}/release", "Let requests go on that hold or delay has stopped.", (
        FAULT, Parameter("count", "integer", "How many; without it, all."),
    )),
    Command("remove_fault", "DELETE", "/faults/{fault}", "End a fault.", (FAULT,)),
    Command("last_requests", "GET", "/requests", "The last requests of each client, and which clients are connected."),
    Command("reset", "POST", "/reset", "End all faults, and bring back what is away."),
)  # fmt: skip

BY_NAME: Final = {each.name: each for each in COMMANDS}


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of all commands."""
    paths: dict[str, dict[str, Any]] = {}
    for each in COMMANDS:
        answers = {
            "200": {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}},
            "400": {"description": "An argument is wrong: `error` says which, and what to do."},
            "404": {"description": "There is no such thing."},
            "409": {"description": "It cannot be done now."},
        }
        parameters = [
            {
                "name": parameter.name,
                "in": "path" if f"{{{parameter.name}}}" in each.path else "query",
                "required": parameter.required,
                "description": parameter.about,
                "schema": {"type": parameter.kind},
            }
            for parameter in each.parameters
        ]
        paths.setdefault(ROOT + each.path, {})[each.method.lower()] = {
            "operationId": each.name,
            "summary": each.about,
            "parameters": parameters,
            "responses": answers,
        }
    about = "Verbs and faults for tests. Off unless test.control.enable=true."
    return {
        "openapi": "3.1.0",
        "info": {"title": "coordinatord's control for tests", "version": version, "description": about},
        "paths": paths,
    }
