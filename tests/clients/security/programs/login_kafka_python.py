"""kafka-python."""

import json
import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider


class Token(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def main(told: dict) -> str:
    timeout_ms = int(told["timeout_s"] * 1000)
    options = {
        "bootstrap_servers": told["bootstrap"],
        "security_protocol": told["protocol"],
        "ssl_cafile": told["ca"],
        "bootstrap_timeout_ms": timeout_ms,
    }
    if "mechanism" in told:
        options["sasl_mechanism"] = told["mechanism"]
    if "user" in told:
        options |= {"sasl_plain_username": told["user"], "sasl_plain_password": told["password"]}
    if "token" in told:
        options["sasl_oauth_token_provider"] = Token(told["token"])
    if "key" in told:
        options |= {"ssl_certfile": told["key"], "ssl_keyfile": told["key"]}
    producer = KafkaProducer(**options, max_block_ms=timeout_ms)
    producer.send(told["topic"], b"hello").get(told["timeout_s"])
    producer.close()
    consumer = KafkaConsumer(told["topic"], group_id=told["group"], auto_offset_reset="earliest", **options)
    found = next(consumer)
    consumer.commit()
    consumer.close()
    return found.value.decode()


try:
    print("ok", main(json.loads(sys.argv[1])))
except Exception as error:
    print(f"failed {type(error).__name__}: {error}".replace("\n", " "))
