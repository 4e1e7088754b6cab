"""Bytes of a log to Arrow columns: `chunk.decode`. Independent of files, brokers and Spark.

chunk.py       a section of a log to record batches: the entry point
kernels.py     the loops over bytes that are worth compiling: batches, records, flat messages, texts
compiling.py   numba compiles the kernels, once enough of a log has been read
programs.py    a flat declaration as a table of numbers, for the kernel that decodes millions of messages
plain.py       the same decoder in plain Python: used without numba, and the oracle of `chunk`
rows.py        one record as a row, through the generated decoders of `kafka_wire`
columns.py     Arrow columns from arrays of positions and numbers, and from rows
row_types.py   kinds of rows, and the columns of each
projection.py  a reader's selection: kinds, groups, topics, offsets
quarantine.py  undecodable data, as rows
"""
