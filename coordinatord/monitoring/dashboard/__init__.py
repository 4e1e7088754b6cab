"""The state of groups at a moment, as series for Prometheus and as a live page. The exporter reads this state from a
cluster's offsets log, the daemon from its own memory; from here on both are treated alike.

view.py       the groups at a moment, by urgency
series.py     the series for Prometheus, with the names of kafka-lag-exporter and kminion where the meanings are equal
overview.py   a row for each group, incidents, and the rows that changed
details.py    one group with advice and commands, one topic, one client or host
trends.py     the lag of the last hour
words.py      reasons in units for people
responses.py  the responses to the live page
page.py       the skeleton of the page; front/ has its scripts and uPlot: no build step, nothing from other hosts
"""
