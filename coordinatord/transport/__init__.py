"""From the socket to the handler and back; the identity of a client; requests between nodes.

net/       connections, frames, order of responses, back-pressure, routing by API key and version
security/  TLS, SASL, the authorizer
cluster/   the leader of each partition; requests from one node to another

Entry points: `net.listening`, `net.router.Router`, `security.authorizer`. Promises: responses leave in the order of
requests, a handler gets a decoded request of an authenticated principal, and no connection holds the event loop for
longer than a turn. This wing has no notion of topics, groups or logs.
"""
