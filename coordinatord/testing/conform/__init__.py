"""The conformance suite: Kafka's recorded answers, for any broker that speaks its protocol.

    stories/       what clients send, and what Apache Kafka 4.3 answered
    story.py       the language that stories are written in
    values.py      the values in a story's requests
    player.py      plays one story on a connection
    raw_client.py  a client that is nothing but frames
    canonical.py   answers as text in which only what matters can differ
    chapters.py    the subject of each story, and its KIP
    selection.py   which stories a broker can be asked, given its settings and APIs
    target.py      what the broker says of itself; its readiness
    cleanup.py     removes what the stories left on a broker
    starting.py    a broker of one's own for each set of settings
    suite.py       plays stories side by side, and compares
    outcome.py     what came of a story
    report.py      the text, the JSON and the JUnit XML
    page.py        the HTML page
    explain.py     one story, request by request

`coordinatord conform` plays the stories; this project's own tests record and replay them (tests/reference).
"""
