"""The Kafka wire and record formats as pure functions: bytes to typed messages and back.

No module here opens a socket or a file, reads a clock, or imports `coordinatord`. Start with `schema` (the declaration
of a message), then `layout` and `generate` (the way from a declaration to a codec), then any file of `api/`.
"""
