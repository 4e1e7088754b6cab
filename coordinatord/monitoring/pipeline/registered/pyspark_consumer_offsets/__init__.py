"""Registration of the data source `consumer_offsets` with Spark.

Spark imports every top-level module whose name begins with pyspark_ and registers its DefaultSource (see
pyspark.sql.worker.lookup_data_sources). pyproject.toml has the wheel put this module at the top level.
"""

from coordinatord.monitoring.pipeline.source.consumer_offsets import ConsumerOffsets as DefaultSource

__all__ = ["DefaultSource"]
