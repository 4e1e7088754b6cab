"""Between the sockets and the handlers: bytes in, requests served in order, responses out.

listening.py        sockets, bound before the event loop exists
handshakes.py       accepts clients that speak TLS
sasl_gate.py        the requests that an unauthenticated client may send
connection.py       one client: frames in, turns, back-pressure
response_queue.py   its responses in the order of its requests, including responses that wait for the log
write_coalescer.py  sends responses at the end of the event loop's turn
received.py         a received request
request.py          RequestContext: the handler's view of a request, and the ways in which the request can end
responses.py        encodes a response as its frame
router.py           dispatches a frame to its handler
routes.py           the handler and the shortcut of each version of an API, and their durations
api_versions.py     ApiVersions: the APIs and versions served
connections.py      all connections: their number, and the idle ones
server_context.py   the context that all connections share
"""
