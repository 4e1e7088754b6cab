"""The state of groups at a moment, as series for Prometheus and as a live page. The exporter reads this state from a
cluster's offsets log, the daemon from its own memory; from here on both are treated alike.

view.py       the groups at a moment, by urgency
series.py     the series for Prometheus, with the names of kafka-lag-exporter and kminion where the meanings are equal
responses.py  the responses to the live page: a list of groups, one group, events as they happen
page.py       the page itself, live.html: no build step, nothing from other hosts
"""
