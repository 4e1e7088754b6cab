"""Whether the daemon is alive and whether it should get clients: the shell says, /healthz and /readyz tell.

Alive and ready are different questions. A daemon that loads its log is alive and must not be restarted for it, but it
cannot serve every group yet; one that drains is alive and must get no new clients; one whose log failed is neither.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class HealthState(StrEnum):
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class Health:
    """State and reasons. The event loop writes, the admin thread reads; each change replaces one tuple, so no lock
    is needed.
    """

    __slots__ = ("_checks", "_said")

    def __init__(self) -> None:
        self._said: tuple[HealthState, tuple[str, ...]] = (HealthState.STARTING, ("the daemon is starting",))
        self._checks: dict[str, Callable[[], str | None]] = {}

    def set(self, state: HealthState, *reasons: str) -> None:
        """Move to a state, with what a person should know about it. There is no way back from DRAINING but to FAILED,
        and none from FAILED: what goes on meanwhile does not hide them.
        """
        if state is HealthState.FAILED or self._said[0] not in (HealthState.DRAINING, HealthState.FAILED):
            self._said = (state, reasons)

    def starting(self, *reasons: str) -> None:
        self.set(HealthState.STARTING, *reasons)

    def loading(self, *reasons: str) -> None:
        self.set(HealthState.LOADING, *reasons)

    def ready(self) -> None:
        self.set(HealthState.READY)

    def draining(self, *reasons: str) -> None:
        self.set(HealthState.DRAINING, *(reasons or ("the daemon is stopping",)))

    def failed(self, *reasons: str) -> None:
        self.set(HealthState.FAILED, *reasons)

    def watch(self, name: str, check: Callable[[], str | None]) -> None:
        """Ask `check` whenever readiness is asked: None when all is well, otherwise why not. It runs on the admin
        thread.
        """
        self._checks[name] = check

    @property
    def state(self) -> HealthState:
        return self._said[0]

    def live(self) -> tuple[bool, dict[str, object]]:
        """Is it worth keeping? (yes or no, what to tell as JSON)"""
        state, reasons = self._said
        return state is not HealthState.FAILED, {"state": state.value, "reasons": list(reasons)}

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Should it get clients? (yes or no, what to tell as JSON)"""
        state, reasons = self._said
        told = [*reasons, *self._objections()]
        return state is HealthState.READY and not told, {"state": state.value, "reasons": told}

    def _objections(self) -> list[str]:
        objections = []
        for name, check in list(self._checks.items()):
            objection = check()
            if objection is not None:
                objections.append(f"{name}: {objection}")
        return objections
