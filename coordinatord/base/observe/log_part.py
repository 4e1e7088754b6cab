"""A part of the admin port: a function that serves all requests for the paths below a prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Document(NamedTuple):
    """A response body that is not JSON."""

    content_type: str
    body: bytes


PathHandler = Callable[[str, str, Mapping[str, str], str], tuple[int, object]]
"""(method, path, query, bearer token) -> HTTP's status, and the response body: a Document, or else an object
for JSON.
"""
