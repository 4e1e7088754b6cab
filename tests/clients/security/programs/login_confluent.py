"""confluent-kafka (librdkafka)."""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

FATAL = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
seen = []


def main(told: dict) -> str:
    ends_s = time.monotonic() + told["timeout_s"]
    options = {
        "bootstrap.servers": told["bootstrap"],
        "security.protocol": told["protocol"],
        "ssl.ca.location": told["ca"],
        "error_cb": lambda error: seen.append(error) if error.code() in FATAL else None,
        "log_level": 0,
    }
    if "mechanism" in told:
        options["sasl.mechanism"] = told["mechanism"]
    if "user" in told:
        options |= {"sasl.username": told["user"], "sasl.password": told["password"]}
    if "token" in told:
        options["oauth_cb"] = lambda _: (told["token"], time.time() + 3_600)
    if "key" in told:
        options |= {"ssl.certificate.location": told["key"], "ssl.key.location": told["key"]}
    producer = Producer(options)
    sent = []
    producer.produce(told["topic"], b"hello", on_delivery=lambda error, _: sent.append(error))
    while not sent and not seen and time.monotonic() < ends_s:
        producer.poll(0.1)
    if not sent or sent[0] is not None:
        raise KafkaException(seen[0] if seen else "nothing was said")
    consumer = Consumer({**options, "group.id": told["group"], "auto.offset.reset": "earliest"})
    consumer.subscribe([told["topic"]])
    found = None
    while found is None and not seen and time.monotonic() < ends_s:
        found = consumer.poll(0.1)
        if found is not None and found.error():
            found = None
    if found is None:
        raise KafkaException(seen[0] if seen else "nothing was read")
    consumer.commit(asynchronous=False)
    consumer.close()
    return found.value().decode()


try:
    print("ok", main(json.loads(sys.argv[1])))
except KafkaException as error:
    told = error.args[0]
    name = told.name() if isinstance(told, KafkaError) else "timeout"
    print(f"failed {name}: {told}".replace("\n", " "))
