"""One process, assembled: the daemon, its workers, its storage, and the checks and shortcuts before the handlers.

daemon/      assembles, starts and drains one process: `daemon.Daemon`
workers/     `--workers N`: the supervisor of several processes
postgresql/  `storage=postgresql://`
access/      permissions and quotas of each API
exchange/    import from and export to the data directories of Kafka brokers
control/     verbs and faults for tests: `test.control.enable`
fastpath/    responses to repeated requests from their bytes

Promises: the daemon listens when it is ready, drains before it exits, and ends by fail-stop when its log fails. Imports
every wing below; nothing below imports it.
"""
