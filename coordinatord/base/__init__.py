"""The basis of every process: time, settings, log lines and metrics, limits.

clocks/         the clock, the timing wheel, timers on the event loop
config/         settings under Kafka's names: `load` reads them, `Settings` has the values
observe/        loggers, metrics, health, the admin port
libpq/          addresses of PostgreSQL
bounds/         tables with a limit in bytes
threads.py      functions on another thread
topic_names.py  valid names of topics

Promises: `Clock.now_ms` never goes back; a setting has been checked before it is read. Of Kafka's protocol, this wing
imports only error codes and record types, and it imports no module of another wing.
"""
