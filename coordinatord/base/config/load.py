"""Settings from their sources: defaults, then a file, then the environment, then flags. A later source wins.

Every entry stores its origin for error messages and for `coordinatord settings`. All problems are collected and raised
as one `ConfigError`, with a sentence per problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinatord.base.config import rules, security
from coordinatord.base.config.security import Override
from coordinatord.base.config.setting_types import Unacceptable
from coordinatord.base.config.settings import Settings
from coordinatord.base.config.table import ALIASES, TABLE

ENVIRONMENT_PREFIX = "COORDINATORD_"

SHORTHANDS: dict[str, str] = {
    "listen": "listeners",
    "advertise": "advertised.listeners",
    "data-dir": "log.dirs",
    "admin": "admin.listeners",
    "workers": "workers",
    "as-version": "advertised.kafka.version",
    "log-format": "logging.format",
    "log-level": "logging.level",
}
"""Settings that `serve` also accepts as options with short names: option name -> setting. Environment variables of the
short names, such as COORDINATORD_DATA_DIR, work too.
"""

# Kubernetes describes every service of a namespace in the environment of its pods; the variables of a service with the
# name "coordinatord" are not settings. Variables that compose files interpolate are not settings either.
_NO_SETTING = re.compile(r"(SERVICE_HOST|(SERVICE_)?PORT(_.*)?|IMAGE|VERSION)")


class ConfigError(Exception):
    """Settings that cannot be used. `problems` has one sentence per problem: the fault and its remedy."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting as written in a source: name, value before parsing, and origin."""

    name: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid settings, their origins, and warnings for the user."""

    settings: Settings
    origins: dict[str, str]
    """Name -> origin of the value, for the settings that a source contains."""
    warnings: tuple[str, ...]


def load(
    *, file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Iterable[Entry] = ()
) -> Loaded:
    """Read all sources, merge them, and check the result. Raises ConfigError with all problems."""
    problems: list[str] = []
    entries: list[Entry] = []
    try:
        from_file = read_file(file) if file is not None else []
    except ConfigError as error:
        problems += error.problems
        from_file = []
    for source in (from_file, from_environment(environment or {}), flags):
        # If a source has a setting under both of its names, Kafka's newer name wins, in whatever order they are.
        entries += sorted(source, key=lambda entry: entry.name not in ALIASES)

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    foreign: dict[str, str] = {}
    overrides: dict[str, Override] = {}
    for entry in entries:
        name = ALIASES.get(entry.name, entry.name)
        row = TABLE.get(name)
        if name.startswith(security.PREFIX):
            try:
                found = security.override(name, entry.value)
            except Unacceptable as wrong:
                problems.append(f"{entry.name} {wrong} ({entry.origin}).")
                continue
            if found is None:
                foreign[name] = entry.origin
            else:
                overrides[name] = found
            continue
        if row is None:
            if _is_foreign(name):
                foreign[name] = entry.origin
            else:
                problems.append(_unknown(entry))
            continue
        try:
            values[row.attribute] = row.parse(entry.value)
        except Unacceptable as wrong:
            problems.append(f"{entry.name} {wrong} ({entry.origin}).")
        else:
            origins[name] = entry.origin
    if problems:
        raise ConfigError(*problems)

    settings = Settings(**values, listener_overrides=tuple(overrides.values()))
    problems = rules.broken(settings)
    if problems:
        raise ConfigError(*problems)
    return Loaded(settings, origins, tuple(_warnings(foreign)))


def assignment(text: str, origin: str) -> Entry:
    """Parse `name=value` of the flag `origin`. Raises ConfigError if the name or the equals sign is missing."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ConfigError(f"{origin} takes name=value, as in {origin} group.max.size=100, not {text!r}.")
    return Entry(name.strip(), value, origin)


def from_environment(environment: Mapping[str, str]) -> list[Entry]:
    """Return the settings in environment variables that begin with COORDINATORD_.

    COORDINATORD_GROUP_MAX_SIZE -> group.max.size, COORDINATORD_DATA_DIR -> log.dirs. COORDINATORD_CONFIG names
    the file and is left out.
    """
    short, full = [], []
    for variable, value in sorted(environment.items()):
        rest = variable.removeprefix(ENVIRONMENT_PREFIX)
        if rest in (variable, "CONFIG") or _NO_SETTING.fullmatch(rest):
            continue
        origin = f"environment variable {variable}"
        shorthand = SHORTHANDS.get(rest.lower().replace("_", "-"))
        if shorthand is not None:
            short.append(Entry(shorthand, value, origin))
        else:
            full.append(Entry(rest.lower().replace("_", "."), value, origin))
    # A container image sets COORDINATORD_LISTEN; if the user also sets COORDINATORD_LISTENERS, the user's must win.
    return short + full


def read_file(path: Path) -> list[Entry]:
    """Read a TOML file, with dotted names or nested tables, or a server.properties. The suffix determines the format.

    A properties file is Latin-1 with escapes (``\\uXXXX``), as for Kafka (``Utils.loadProps``: ``Properties.load`` of a
    stream of bytes), and TOML is UTF-8. Raises ConfigError.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error.strerror}.") from error
    if path.suffix == ".toml":
        return _from_toml(content, path)
    if path.suffix in (".properties", ".conf", ".cfg"):
        return _from_properties(content, path)
    raise ConfigError(
        f"The configuration file {path} must end in .toml (TOML) or .properties (as Kafka's server.properties)."
    )


def _from_toml(content: bytes, path: Path) -> list[Entry]:
    import tomllib  # imported here: other starts need no TOML parser

    try:
        document = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"The configuration file {path} is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        # log.flush and log.flush.interval.ms cannot both be keys of tables; in quotes they are two plain keys.
        advice = ' Put dotted names in quotes, as in "log.flush".' if "overwrite" in str(error).lower() else ""
        raise ConfigError(f"{path} is not valid TOML: {error}.{advice}") from error
    return [Entry(name, value, str(path)) for name, value in _flattened(document, "")]


def _flattened(table: dict[str, Any], prefix: str) -> Iterable[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _from_properties(content: bytes, path: Path) -> list[Entry]:
    import javaproperties  # imported here: other starts need no parser of properties files

    try:
        pairs: dict[str, str] = javaproperties.loads(content.decode("latin-1"))
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(f"{path} is not a valid properties file: {error}.") from error
    return [Entry(name, value, str(path)) for name, value in pairs.items()]


def _is_foreign(name: str) -> bool:
    from coordinatord.base.config.ignored_settings import is_foreign  # imported here: few starts need the list

    return is_foreign(name)


def _unknown(entry: Entry) -> str:
    import difflib

    from coordinatord.base.config.ignored_settings import NAMES

    # group_max_size is taken for group.max.size, and a flag's name for the setting that the flag sets.
    spelled = entry.name.lower().replace("_", ".").replace("-", ".")
    short = SHORTHANDS.get(spelled.replace(".", "-"))
    near = [short] if short else difflib.get_close_matches(spelled, [*TABLE, *ALIASES, *NAMES], n=1, cutoff=0.75)
    advice = f"Did you mean {near[0]}?" if near else "`coordinatord settings` lists all of them."
    return f"There is no setting {entry.name!r} ({entry.origin}). {advice}"


def _warnings(foreign: Mapping[str, str]) -> Iterable[str]:
    if foreign:
        verb = "has" if len(foreign) == 1 else "have"
        yield f"{', '.join(sorted(foreign))} {verb} no effect here."
