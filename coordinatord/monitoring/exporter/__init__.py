"""`coordinatord exporter`: the groups of any Kafka cluster that are behind, for Prometheus and on a live page.

choice.py   the selection of groups and topics to watch, and their limits
reading.py  the records of the offsets log, reduced to the state that the series need, and a view of that state
watcher.py  reads at intervals on its own thread, and continues through failures of the cluster
serving.py  the port: metrics, health, page
"""
