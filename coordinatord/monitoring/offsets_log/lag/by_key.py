"""Commits by group, topic and partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from coordinatord.monitoring.offsets_log.lag.commit_arrays import Ints
from coordinatord.monitoring.offsets_log.lag.known import Key


def by_key(commits: pa.Table) -> Iterator[tuple[Key, Ints]]:
    """Yield each group with a topic and a partition, and the numbers of its rows in the order of the log."""
    if not commits.num_rows:
        return
    names = [_encoded(commits[name]) for name in ("group_id", "topic")]
    groups, topics = (each.dictionary.to_pylist() for each in names)
    group, topic = (each.indices.to_numpy().astype(np.int64) for each in names)
    number = commits["partition"].to_numpy()
    place = group * len(topics) + topic
    order = np.lexsort((commits["log_offset"].to_numpy(), number, place))
    place, number = place[order], number[order]
    begins = np.flatnonzero((place[1:] != place[:-1]) | (number[1:] != number[:-1])) + 1
    for begin, rows in zip([0, *begins.tolist()], np.split(order, begins), strict=True):
        yield (groups[group[order[begin]]], topics[topic[order[begin]]], int(number[begin])), rows


def _encoded(column: pa.ChunkedArray) -> Any:
    """Return a column of names as one array with a dictionary that has each name once."""
    return column.dictionary_encode().unify_dictionaries().combine_chunks()
