"""The codecs of the wire: plain Python that the build writes (`kafka_wire.generate`), one module for each module of
declarations. Read them; do not change them. Git ignores all but this file.

Importing any of them fails with a `NotGenerated` if they do not belong to the declarations and the generator that lie
beside them.
"""

from __future__ import annotations

from kafka_wire import fresh

fresh.check()
