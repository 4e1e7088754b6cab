"""Declaration of one setting: its type, range and default, and the parsing of text or a TOML value into a value of that
type.

A declaration is a dataclass field, so that a settings object is an ordinary typed object for its readers, and a table
for the code that loads, lists and documents it: `integer(50, "…", minimum=1)` returns the field and attaches a
`Setting` to its metadata. The dotted name is the attribute's name with dots for underscores; no name of Kafka's has an
underscore, so the conversion can be reversed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from kafka_wire.java import trim

INT_MAX = 2**31 - 1
"""Maximum of Kafka's type INT, which means "no limit" for most limits."""
LONG_MAX = 2**63 - 1


class Unacceptable(Exception):
    """Raised for a value that a setting does not accept; the message completes "group.max.size … " to a sentence, and
    has no full stop.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    """Kafka's dotted name, or a name of our own in the same style."""
    attribute: str
    """The attribute of `Settings` that has the value: the name with underscores."""
    kind: str
    """The type of the value in words: "int", "true or false", "HOST:PORT list" …"""
    parse: Callable[[object], Any]
    """Text or a TOML value -> the value. Raises Unacceptable."""
    default: Any
    doc: str
    ours: str
    """The reason why the name or the default is not Kafka's; empty if both are."""
    aliases: tuple[str, ...]
    """Other names of the setting in Kafka or among its users."""

    def shown(self, value: Any) -> Any:
        """Return the value for output: passwords are hidden, as Kafka hides them."""
        return HIDDEN if value and self.is_secret else value

    @property
    def is_secret(self) -> bool:
        """True if the value is never shown."""
        return self.kind == "password" or self.name in ("test.control.token", "test.users")


HIDDEN = "[hidden]"


def _field(
    parse: Callable[[object], Any],
    kind: str,
    default: object,
    doc: str,
    ours: str,
    aliases: tuple[str, ...],
) -> Any:
    def setting(attribute: str) -> Setting:
        return Setting(
            attribute.replace("_", "."), attribute, kind, parse, default, " ".join(doc.split()), ours, aliases
        )

    return dataclasses.field(default=default, metadata={"setting": setting})


def declared(settings_class: type) -> dict[str, Setting]:
    """Return the table of a settings class: dotted name -> row, in the order of declaration. Fields that are not
    settings are left out.
    """
    fields = [field for field in dataclasses.fields(settings_class) if "setting" in field.metadata]
    rows = [field.metadata["setting"](field.name) for field in fields]
    return {row.name: row for row in rows}


def integer(
    default: int,
    doc: str,
    *,
    minimum: int = 0,
    maximum: int = INT_MAX,
    ours: str = "",
    aliases: tuple[str, ...] = (),
) -> int:
    def parse(value: object) -> int:
        number = _whole_number(value)
        if number is None:
            raise Unacceptable(f"must be a whole number, not {shown(value)}")
        return _within(number, minimum, maximum)

    kind = f"int, {_range(minimum, maximum)}"
    return _field(parse, kind, default, doc, ours, aliases)  # type: ignore[no-any-return]


def optional_integer(
    doc: str, *, minimum: int = 0, maximum: int = LONG_MAX, aliases: tuple[str, ...] = ()
) -> int | None:
    """Declare an integer that is unset by default, because another setting takes its place."""

    def parse(value: object) -> int | None:
        if isinstance(value, str) and not value.strip():
            return None
        number = _whole_number(value)
        if number is None:
            raise Unacceptable(f"must be a whole number, not {shown(value)}")
        return _within(number, minimum, LONG_MAX)

    kind = f"int, {_range(minimum, LONG_MAX)}, or unset"
    return _field(parse, kind, None, doc, "", ())  # type: ignore[no-any-return]


def ratio(default: float, doc: str) -> float:
    def parse(value: object) -> float:
        try:
            number = float(value) if not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 <= number <= 1.0:
            raise Unacceptable(f"must be a number from 0 to 1, not {shown(value)}")
        return number

    return _field(parse, "number, 0 to 1", default, doc, "", ())  # type: ignore[no-any-return]


def rate(default: float, doc: str) -> float:
    """Declare a positive number of units per second."""

    def parse(value: object) -> float:
        try:
            number = float(value) if not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 < number < math.inf:
            raise Unacceptable(f"must be a number above 0, not {shown(value)}")
        return number

    return _field(parse, "number above 0", default, doc, "", ())  # type: ignore[no-any-return]


def boolean(default: bool, doc: str, *, ours: str = "") -> bool:
    def parse(value: object) -> bool:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in ("true", "false"):
            raise Unacceptable(f"must be true or false, not {shown(value)}")
        return word == "true"

    return _field(parse, "true or false", default, doc, ours, ())  # type: ignore[no-any-return]


def choice(
    default: str,
    allowed: tuple[str, ...],
    doc: str,
    *,
    ours: str = "",
) -> str:
    """Declare a choice of a few words, in any case; the value is spelled as in `allowed`."""
    spelling = {word.lower(): word for word in allowed}

    def parse(value: object) -> str:
        word = spelling.get(value.strip().lower()) if isinstance(value, str) else None
        if word is None:
            raise Unacceptable(f"must be {_either(allowed)}, not {shown(value)}")
        return word

    return _field(parse, _either(allowed), default, doc, ours, ())  # type: ignore[no-any-return]


def words(
    default: tuple[str, ...],
    doc: str,
    *,
    allowed: tuple[str, ...] = (),
    ours: str = "",
) -> tuple[str, ...]:
    """Declare a list: comma-separated text, or a TOML array."""

    def parse(value: object) -> tuple[str, ...]:
        items = listed(value)
        for item in items:
            if allowed and item not in allowed:
                raise Unacceptable(f"may hold {_either(allowed)}, not {shown(item)}")
        return items

    kind = f"list of {_either(allowed)}" if allowed else "list"
    return _field(parse, kind, default, doc, ours, ())  # type: ignore[no-any-return]


def parsed(
    default: Any,
    parse: Callable[[object], Any],
    kind: str,
    doc: str,
    *,
    ours: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a value with a parser of its own."""
    return _field(parse, kind, default, doc, ours, aliases)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Unacceptable(f"must be text, not {shown(value)}")
    return trim(value)


def one_directory(value: object) -> str:
    """Parse the name of one directory."""
    directories = listed(value)
    if len(directories) != 1:
        raise Unacceptable("must name exactly one directory; several are not supported")
    return directories[0]


def storage_address(value: object) -> str:
    """Parse `directory`, or the address of a database."""
    where = text(value)
    if where != "directory" and not where.startswith(("postgresql://", "postgres://")):
        raise Unacceptable(f"must be directory or an address that begins with postgresql://, not {shown(where)}")
    return where


def listed(value: object) -> tuple[str, ...]:
    """Return the items of comma-separated text or of a TOML array of texts, stripped, without empty items."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    if not isinstance(value, str):
        raise Unacceptable(f"must be a list of texts, not {shown(value)}")
    return tuple(item for each in value.split(",") if (item := trim(each)))


def written(value: object) -> str:
    """Return a setting's value as text that its parser accepts."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(":".join(item) if isinstance(item, tuple) else str(item) for item in value)
    return str(value)


def shown(value: object) -> str:
    """Return a value for an error message: quoted, and cut if it is as long as a file."""
    quoted = repr(value)
    return quoted if len(quoted) <= 60 else f"{quoted[:57]}…"


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        digits = value.strip()
        # int() would also take "1_000", "٣" and kilobytes of digits.
        if digits.removeprefix("-").isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 20:
            return int(digits)
    return None


def _within(number: int, minimum: int, maximum: int) -> int:
    if number < minimum:
        raise Unacceptable(f"must be at least {minimum}, not {number}")
    if number > maximum:
        raise Unacceptable(f"must be at most {maximum}, not {number}")
    return number


def _range(minimum: int, maximum: int) -> str:
    if maximum >= INT_MAX:
        return f"{minimum} or more"
    return f"{minimum} to {maximum}"


def _either(allowed: tuple[str, ...]) -> str:
    return allowed[0] if len(allowed) == 1 else f"{', '.join(allowed[:-1])} or {allowed[-1]}"
