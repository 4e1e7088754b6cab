"""The progress of a long job: a bar on a terminal, a line per stage elsewhere (cli/progress.py)."""

from __future__ import annotations


class Progress:
    """Progress of a job, which this class does not show; the command line's subclass shows it to the user."""

    def stage(self, text: str, done: int = 0, total: int = 0) -> None:
        """Begin a stage: the `done + 1`st of `total`, if there are several like it."""

    def amount(self, done: int, total: int, unit: str) -> None:
        """Set the progress within the stage."""
