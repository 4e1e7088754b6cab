"""Settings that were changed while the broker runs (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Overrides:
    """Texts of changed settings by name: `broker` those of one broker, which come before `default`, those of the
    cluster. `static` has the values of the start that they replace, by attribute.
    """

    default: Mapping[str, str]
    broker: Mapping[str, str]
    static: Mapping[str, Any]
