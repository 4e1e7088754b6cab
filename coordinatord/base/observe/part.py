"""A part of the admin port: whatever answers all requests for the paths below a prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Document(NamedTuple):
    """An answer that is not JSON."""

    content_type: str
    body: bytes


Part = Callable[[str, str, Mapping[str, str], str], tuple[int, object]]
"""(method, path, query, bearer token) -> HTTP's status, and what to answer: a Document, or else JSON."""
