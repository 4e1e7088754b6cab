"""Limits in bytes for data that peers name and send.

mapping.py      a table whose keys peers choose; it drops its oldest entries when it is full
fair_shares.py  data in transit of all connections; if there is too much, the connection with the most is closed
"""
