"""Settings: Kafka's names and defaults, from a file, the environment and flags.

`settings.py` is the table and the object with the values, `kinds.py` how a row is declared and a value parsed,
`address.py` listeners, `load.py` the sources, `rules.py` what settings must say together, `foreign.py` names of
Kafka's that mean nothing here.
"""

from coordinatord.base.config.address import Endpoint, Listener
from coordinatord.base.config.load import ConfigError, Entry, Loaded, load
from coordinatord.base.config.settings import TABLE, Settings

__all__ = ["TABLE", "ConfigError", "Endpoint", "Entry", "Listener", "Loaded", "Settings", "load"]
