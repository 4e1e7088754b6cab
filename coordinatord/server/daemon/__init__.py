"""One process: assembled, started, drained.

daemon.py            the parts and how they are put together; start, run, stop
handlers.py          the handlers of all APIs, some of them made by need
deferred_imports.py  what is imported once the daemon listens
process.py           the event loop and the signals around it
storage.py           where the records are: a directory, or PostgreSQL
limits.py            the settings that groups and transactions take
gauges.py            state that metrics read
compaction.py        when the log cleaner works
worker.py            what a worker is given by its supervisor, and the line between them
"""
