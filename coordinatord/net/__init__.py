"""Between the socket and the handlers: bytes in, frames served in order, answers out.

listening.py     sockets, bound before there is an event loop
connection.py    one client: frames in, turns, back-pressure
answers.py       its answers, in the order of its requests; those that wait for the log
turn_end.py      what leaves at the end of the event loop's turn
received.py      a request as it came
request.py       RequestContext: what a handler knows of a request, and how the request can end
responses.py     a response as its frame
router.py        from a frame to its handler
routes.py        which handler and which shortcut serve an API in a version, and what they take
api_versions.py  ApiVersions: what is served
connections.py   all connections: how many, which are idle
door.py          what all connections share
"""
