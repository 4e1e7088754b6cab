"""Settings: Kafka's names and defaults, from a file, the environment and flags.

`settings.py` declares the object with the values, `table.py` lists its settings, `setting_types.py` has the declaration
of a row and the parsing of a value, `address.py` listeners, `load.py` the sources, `rules.py` rules for combinations of
settings, `ignored_settings.py` Kafka's names that have no effect in coordinatord.
"""

from coordinatord.base.config.address import Endpoint, Listener
from coordinatord.base.config.load import ConfigError, Entry, Loaded, load
from coordinatord.base.config.settings import Settings
from coordinatord.base.config.table import TABLE

__all__ = ["TABLE", "ConfigError", "Endpoint", "Entry", "Listener", "Loaded", "Settings", "load"]
