"""Spark's Kafka source and sink, in one local session. Lines on standard input, answered as in admin mode:

read TOPIC ISOLATION              OK value value …      a batch read of all there is
write TOPIC CODEC PREFIX COUNT    OK                    a batch write of PREFIX-000000 …
copy TOPIC TOPIC CHECKPOINT       OK                    a streaming query that goes on where its checkpoint ends
"""

from __future__ import annotations

import sys

from line_protocol import ARGUMENTS, say
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, format_string, lit

STREAM_TIMEOUT_S = 90


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").appName("program")
    settings = {
        "spark.jars": ARGUMENTS["jars"],
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": ARGUMENTS["directory"],
        "spark.sql.warehouse.dir": ARGUMENTS["directory"],
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answer(spark: SparkSession, verb: str, words: list[str]) -> str:
    kafka = {"kafka.bootstrap.servers": ARGUMENTS["bootstrap"]}
    if verb == "read":
        kafka |= {"subscribe": words[0], "startingOffsets": "earliest", "kafka.isolation.level": words[1]}
        read = spark.read.format("kafka").options(**kafka).load()
        return " ".join(row.value for row in read.select(col("value").cast("string")).collect())
    if verb == "write":
        topic, codec, prefix, count = words
        numbered = spark.range(int(count)).coalesce(1)
        written: DataFrame = numbered.select(concat(lit(f"{prefix}-"), format_string("%06d", "id")).alias("value"))
        options = {**kafka, "kafka.compression.type": codec, "topic": topic}
        written.write.format("kafka").options(**options).save()
        return ""
    assert verb == "copy", verb
    source = spark.readStream.format("kafka").options(**kafka, subscribe=words[0], startingOffsets="earliest").load()
    sink = source.select("key", "value").writeStream.format("kafka").options(**kafka, topic=words[1])
    query = sink.option("checkpointLocation", words[2]).trigger(availableNow=True).start()
    ended = query.awaitTermination(STREAM_TIMEOUT_S)
    assert ended, f"the query did not end: {query.status}"
    return ""


spark = session()
for line in sys.stdin:
    verb, *words = line.split()
    try:
        say("OK", answer(spark, verb, words))
    except Exception as error:
        say("ERROR", -1, repr(error).replace("\n", " "))
spark.stop()
