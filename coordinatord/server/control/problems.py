"""Errors of commands, as sentences that name a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ControlError(Exception):
    """A command that cannot be carried out; nothing has changed. `status` is that of HTTP: 400 for a wrong argument,
    404 for something that is not there, 409 for a state in which it cannot be done.
    """

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


def not_there(sentence: str) -> ControlError:
    """Return the error for a missing group, member, transaction or fault."""
    return ControlError(sentence, 404)


def not_now(sentence: str) -> ControlError:
    """Return the error for a command that the current state does not allow."""
    return ControlError(sentence, 409)


def unknown(what: str, name: str, known: Iterable[str]) -> ControlError:
    """Return the error for an unknown name. `what` is the kind of the named thing: "API". Suggests the nearest name, or
    lists all.
    """
    names = sorted(known)
    folded = {each.replace("_", "").lower(): each for each in names}
    near = difflib.get_close_matches(name.replace("_", "").lower(), folded, n=1, cutoff=0.6)
    advice = f"Did you mean {folded[near[0]]}?" if near else f"There are {', '.join(names)}."
    return ControlError(f"There is no {what} {name!r}. {advice}")


def listed(names: Iterable[str], none: str = "none") -> str:
    """Return names for a sentence: "a, b and c"."""
    found = sorted(names)
    if not found:
        return none
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
