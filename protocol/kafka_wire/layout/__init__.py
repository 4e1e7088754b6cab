"""The definition of the wire format's types: construct classes that also write source.

`tree` turns a declaration (`kafka_wire.schema`) into the construct tree of one version. Each class of that tree parses
and builds as construct's classes do, which makes the tree the reference codec (`kafka_wire.reference`). Each class also
writes the lines of Python that do the same fast (`emit_decode`, `emit_encode`); `kafka_wire.generate` makes the
daemon's codecs of these lines. A new type is one class here with both, and the name that declares it in
`kafka_wire.schema`.

Only the build and command-line tools import this package: the daemon imports the generated modules, and does not import
construct.
"""
