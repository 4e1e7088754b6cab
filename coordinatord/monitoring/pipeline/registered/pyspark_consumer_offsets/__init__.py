"""Spark imports every top-level module called pyspark_… and registers its DefaultSource (see
pyspark.sql.worker.lookup_data_sources). The wheel puts this one at the top level; pyproject.toml says how.
"""

from coordinatord.monitoring.pipeline.source.consumer_offsets import ConsumerOffsets as DefaultSource

__all__ = ["DefaultSource"]
