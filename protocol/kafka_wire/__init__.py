"""The Kafka wire and record formats, pure: bytes in, typed messages out, and back.

Nothing here opens a socket or a file, reads a clock, or imports `coordinatord`. Start with `schema` (how a message is
declared), then `compiler` (what becomes of a declaration), then any file of `api/`.
"""
