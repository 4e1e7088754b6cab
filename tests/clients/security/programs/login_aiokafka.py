"""aiokafka."""

import asyncio
import json
import ssl
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider


class Token(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


async def main(told: dict) -> str:
    options = {"bootstrap_servers": told["bootstrap"], "security_protocol": told["protocol"]}
    if told["protocol"].endswith("SSL"):
        options["ssl_context"] = ssl.create_default_context(cafile=told["ca"])
        if "key" in told:
            options["ssl_context"].load_cert_chain(told["key"])
    if "mechanism" in told:
        options["sasl_mechanism"] = told["mechanism"]
    if "user" in told:
        options |= {"sasl_plain_username": told["user"], "sasl_plain_password": told["password"]}
    if "token" in told:
        options["sasl_oauth_token_provider"] = Token(told["token"])
    producer = AIOKafkaProducer(**options)
    try:
        await producer.start()
        await producer.send_and_wait(told["topic"], b"hello")
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(told["topic"], group_id=told["group"], auto_offset_reset="earliest", **options)
    await consumer.start()
    try:
        found = await consumer.getone()
        await consumer.commit()
        return found.value.decode()
    finally:
        await consumer.stop()


async def within(told: dict) -> str:
    return await asyncio.wait_for(main(told), told["timeout_s"])


try:
    print("ok", asyncio.run(within(json.loads(sys.argv[1]))))
except Exception as error:
    print(f"failed {type(error).__name__}: {error}".replace("\n", " "))
