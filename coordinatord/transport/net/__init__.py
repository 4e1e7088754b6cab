"""Between the sockets and the handlers: bytes in, requests served in order, responses out.

listening.py     sockets, bound before the event loop exists
handshakes.py    accepts clients that speak TLS
sasl_gate.py     what a client is served before it has proved who it is
connection.py    one client: frames in, turns, back-pressure
answers.py       its responses in the order of its requests, including those that wait for the log
turn_end.py      sends responses at the end of the event loop's turn
received.py      a received request
request.py       RequestContext: what a handler knows of a request, and how the request can end
responses.py     encodes a response as its frame
router.py        from a frame to its handler
routes.py        which handler and shortcut serve a version of an API, and how long they take
api_versions.py  ApiVersions: the APIs and versions served
connections.py   all connections: their number, and which are idle
door.py          what all connections share
"""
