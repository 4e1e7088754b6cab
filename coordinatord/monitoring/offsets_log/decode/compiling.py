"""Compilation of the loops of `kernels` by numba, once this process has read enough of a log.

Loading numba takes seconds and 150 MB, its compiled code comes from a cache beside the file or in the user's cache
directory. Without numba the loops stay plain Python, and `chunk` does not use them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

BULK_BYTES = 64 << 10
"""Size from which a section counts as bulk. A reader that follows a log gets smaller ones, and never needs numba."""
COMPILE_BYTES = 8 << 20
"""Number of bytes in bulk from which on compiled loops are worth their start: plain Python decodes them in a second."""

_loops: list[Callable[..., Any]] = []
_lock = threading.Lock()
_is_compiled: bool | None = None
_bulk_bytes = 0


def loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function for `compile_loops`, which replaces it in its module. A loop must be defined after the loops that
    it calls.
    """
    _loops.append(function)
    return function


def maybe_compile(size: int) -> bool:
    """Return whether the loops are compiled. `size` is the number of bytes that are to be read now: the loops are
    compiled when COMPILE_BYTES have been read in bulk by this process.
    """
    global _bulk_bytes
    if _is_compiled is None and size >= BULK_BYTES:
        _bulk_bytes += size
        if _bulk_bytes >= COMPILE_BYTES:
            return compile_loops()
    return bool(_is_compiled)


def expect(size: int) -> None:
    """Compile the loops now if so many bytes are to be read that `maybe_compile` would do so later."""
    if size >= COMPILE_BYTES:
        compile_loops()


def compile_loops() -> bool:
    """Compile the loops, each at its first call from now on. Return False if numba is not installed."""
    global _is_compiled
    with _lock:
        if _is_compiled is None:
            try:
                from numba import njit
            except ImportError:
                _is_compiled = False
                return False
            for function in _loops:
                function.__globals__[function.__name__] = _compiled(njit, function)
            _is_compiled = True
        return _is_compiled


def _compiled(njit: Any, function: Callable[..., Any]) -> Any:
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no place for the cache: a read-only installation without a home directory
        return njit(nogil=True, error_model="numpy")(function)
