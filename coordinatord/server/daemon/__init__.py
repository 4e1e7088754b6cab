"""One process: assembled, started, drained.

daemon.py            assembles the components; start, run, stop
assembled.py         the interface of the daemon for the modules beside it
handlers.py          the handlers of all APIs
process.py           the event loop and the signals around it
storage.py           the store of the records: a directory, or PostgreSQL
limits.py            the settings that groups and transactions take
gauges.py            state that metrics read
compaction.py        the schedule of the log cleaner
worker.py            the configuration that a supervisor gives to a worker, and the connection between them
"""
