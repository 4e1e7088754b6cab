"""Bytes of a log to Arrow columns: `chunk.decode`. It knows no files, no brokers and no Spark.

chunk.py        a stretch of a log to record batches: the way in
kernels.py      the loops over bytes that are worth compiling: batches, records, flat messages, texts
programs.py     a flat declaration as a table of numbers, for the kernel that decodes millions of them
plain.py        the same in plain Python: the road without numba, and the oracle of `chunk`
rows.py         one record as a row, through the compiled decoders of `kafka_wire`
columns.py      Arrow columns from arrays of positions and numbers, and from rows
kinds.py        kinds of rows, and the columns of each
wanted.py       what a reader is after: kinds, groups, topics, offsets
quarantine.py   what could not be decoded, as rows
"""
