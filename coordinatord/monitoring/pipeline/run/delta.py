"""Delta tables, if Delta's package is installed: the settings that Spark needs, and the error without it.

Delta has two parts whose versions must match: `delta-spark` by pip, and a jar of the same version for this Spark.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from coordinatord.monitoring.offsets_log.source.segments import SourceError

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_LOG = "_delta_log"
"""The name of a directory that every Delta table contains."""
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def delta_settings() -> dict[str, str]:
    """Return the settings of a new session: the Maven coordinates of the jar, and the two classes of Delta that Spark
    needs. Raises SourceError if Delta is not installed.
    """
    try:
        own = version("delta-spark")
    except PackageNotFoundError:
        raise SourceError(_missing("it is not installed")) from None
    spark = ".".join(spark_version.split(".")[:2])
    return {
        "spark.jars.packages": f"io.delta:delta-spark_{spark}_2.13:{own}",
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
    }


def check_delta(spark: SparkSession) -> None:
    """Raise SourceError if the session cannot write Delta tables."""
    conf = spark._jsparkSession.sessionState().conf()
    try:
        spark._jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource("delta", conf)
    except Exception:  # py4j's own, if the class is not found
        raise SourceError(_missing("this Spark session has no jar of it")) from None
    if EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise SourceError(f"Delta tables want spark.sql.extensions={EXTENSION} when the Spark session is made")


def _missing(what: str) -> str:
    return (
        f"the format delta needs Delta Lake for Spark {spark_version}, and {what}: pip install delta-spark, "
        "in a version that is made for this Spark (else pip takes another Spark), or use the format parquet"
    )
