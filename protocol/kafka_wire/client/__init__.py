"""The client's side of a connection to a broker, without I/O: requests become bytes, bytes become responses.

connection.py    one connection: correlation ids, frames, the order of responses, the request for the broker's versions
api_versions.py  the versions that a broker supports, and the newest that it shares with this client

A shell owns the socket: it writes what `ClientConnection.send` returns, and passes what it reads to `receive_data`.
coordinatord's shells are blocking (`transport.client.blocking`) or asyncio protocols (`transport.cluster.peers`,
`testing.member.wire`, `testing.conform.raw_client`).
"""
