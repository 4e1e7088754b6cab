"""`coordinatord exporter`: who is behind in any Kafka cluster, for Prometheus and on a live page.

choice.py   which groups and topics are watched, and how many
reading.py  what was read, folded into what the series need, and the view of it
watcher.py  looks again and again, on a thread of its own, whatever happens to the cluster
serving.py  the port: metrics, health, page
"""
