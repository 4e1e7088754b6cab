"""Observability for operators: loggers (`logger.py`) and the command line's log lines (`logs.py`), metrics
(`metrics.py`, exported by `exposition.py`), the rebalance ledger (`ledger.py`), health (`health.py`) and the admin port
(`admin.py`).
"""
