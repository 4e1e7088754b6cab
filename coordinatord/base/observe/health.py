"""Liveness and readiness of the daemon: the shell sets the state, /healthz and /readyz report it.

The two differ. A daemon that is loading its log is alive and must not be restarted, but it cannot serve every group
yet. A draining daemon is alive but must get no new clients. A daemon whose log failed is neither alive nor ready.
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
    """State and reasons. The event loop writes them, the admin thread reads them; each change replaces one tuple, so
    no lock is needed.
    """

    __slots__ = ("_checks", "_said")

    def __init__(self) -> None:
        self._said: tuple[HealthState, tuple[str, ...]] = (HealthState.STARTING, ("the daemon is starting",))
        self._checks: dict[str, Callable[[], str | None]] = {}

    def set(self, state: HealthState, *reasons: str) -> None:
        """Change the state, with reasons for the operator. DRAINING can only change to FAILED, and FAILED is final:
        later events do not hide them.
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
        """Call `check` at each readiness request: it returns None when ready, otherwise the reason. It runs on the
        admin thread.
        """
        self._checks[name] = check

    @property
    def state(self) -> HealthState:
        return self._said[0]

    def live(self) -> tuple[bool, dict[str, object]]:
        """Return whether the daemon is alive: (yes or no, body as JSON)."""
        state, reasons = self._said
        return state is not HealthState.FAILED, {"state": state.value, "reasons": list(reasons)}

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Return whether the daemon should get clients: (yes or no, body as JSON)."""
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
