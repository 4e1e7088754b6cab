"""Registration of the data source `consumer_offsets` with Spark.

Spark imports each top-level module whose name begins with pyspark_, and registers the module's DefaultSource
(pyspark.sql.worker.lookup_data_sources). So pyproject.toml puts this package at the top level of the wheel.
"""

from coordinatord.monitoring.pipeline.source.consumer_offsets import ConsumerOffsets as DefaultSource

__all__ = ["DefaultSource"]
