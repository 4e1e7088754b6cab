"""What confluent-kafka's results look like as JSON."""

from __future__ import annotations

import enum
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition, Uuid
from surface import shape

SHOWN_CHARACTERS = 20


def error_name(error: BaseException) -> str:
    """librdkafka's name of an error: Kafka's, or with an underscore its own."""
    inner = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return inner.name() if isinstance(inner, KafkaError) else type(error).__name__


def told(value: Any) -> Any:
    """The shape of a value that may have objects of librdkafka in it."""
    if isinstance(value, TopicPartition):
        fields = ("topic", "partition", "offset", "metadata", "leader_epoch", "error")
        return {name: told(getattr(value, name)) for name in fields}
    if isinstance(value, Message):
        return message(value)
    if isinstance(value, KafkaError):
        return value.name()
    if isinstance(value, KafkaException):
        return error_name(value)
    if isinstance(value, Uuid):
        return {"uuid": str(value)}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {key_text(key): told(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {name: told(each) for name, each in vars(value).items() if not name.startswith("_")}
    return shape(value)


def key_text(key: Any) -> str:
    if isinstance(key, TopicPartition):
        return f"{key.topic}-{key.partition}"
    return str(getattr(key, "name", key))


def message(value: Message) -> Any:
    fields = ("topic", "partition", "offset", "key", "headers", "timestamp", "leader_epoch", "error")
    said = {name: told(getattr(value, name)()) for name in fields}
    return said if value.error() else said | {"length": len(value), "value": shape(value.value())[:SHOWN_CHARACTERS]}


def found(metadata: Any, prefix: str) -> Any:
    """ClusterMetadata, of the topics that are ours alone."""
    topics = {
        name: {"partitions": told(dict(sorted(topic.partitions.items()))), "error": told(topic.error)}
        for name, topic in sorted(metadata.topics.items())
        if name.startswith(prefix)
    }
    brokers = sorted(metadata.brokers)
    return {"brokers": brokers, "controller_id": metadata.controller_id, "topics": topics}
