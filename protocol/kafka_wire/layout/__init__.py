"""The one definition of the wire format's types: construct classes that also write source.

`tree` makes of a declaration (`kafka_wire.schema`) the construct tree of one version. Each class of that tree parses
and builds as construct's do, which makes the tree the reference codec (`kafka_wire.reference`); and each writes the
lines of Python that do the same fast (`emit_decode`, `emit_encode`), which `kafka_wire.generate` makes the daemon's
codecs of. A new type is one class here with both, and the name that declares it in `kafka_wire.schema`.

Only the build and people's tools import this package: the daemon imports what was generated, and no construct.
"""
