"""What is known of groups at a moment, and how it is told: to Prometheus, and to people on a live page. The exporter
reads it from a cluster's offsets log, the daemon from its own memory; from here on both are the same.

view.py       the groups at a moment, by urgency
series.py     their series for Prometheus, with the names of kafka-lag-exporter and kminion where they mean the same
responses.py  what the live page asks for: a list of groups, one group, events as they happen
page.py       the page itself, live.html: no build step, nothing from other hosts
"""
