"""Conformance suite: compares any broker that speaks Kafka's protocol with recorded responses of Kafka.

    stories/               requests of clients, and the responses of Apache Kafka 4.4
    story.py               the language that stories are written in
    values.py              the values in a story's requests
    player.py              plays one story on a connection
    wait_until_settled.py  waits until Kafka has applied a change that it has acknowledged
    raw_client.py          a client that sends and receives frames only
    normalized.py          responses as text, without values that differ in each run (ids, times, ports)
    categories.py          the subject of each story, and its KIP
    selection.py           the stories that a broker can play, given its settings and APIs
    target.py              the broker: its settings and versions, its readiness
    cleanup.py             removes the topics and groups of the stories from a broker
    starting.py            starts a separate broker for each set of settings
    suite.py               plays stories concurrently, and compares
    outcome.py             the outcome of a story
    report.py              the text, the JSON and the JUnit XML
    page.py                the HTML page
    explain.py             one story, request by request

`coordinatord conform` plays the stories; this project's own tests record and replay them (tests/reference).
"""
