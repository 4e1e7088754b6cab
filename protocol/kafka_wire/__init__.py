"""The Kafka wire and record formats as pure functions: bytes to typed messages and back.

Nothing here opens a socket or a file, reads a clock, or imports `coordinatord`. Start with `schema` (how a message is
declared), then `layout` and `generate` (how a declaration becomes a codec), then any file of `api/`.
"""
