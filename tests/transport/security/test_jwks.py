"""Keys of tokens' signatures: read from a file or a URL, again when a token names one that is not known."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from coordinatord.base.config.load import assignment, load
from coordinatord.transport.security.jwks import LEAST_INTERVAL_S, MAX_BYTES, Jwks
from coordinatord.transport.security.mechanisms import Mechanisms

KEY = rsa.generate_private_key(65537, 2048)


def key_set(*ids: str) -> str:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    return json.dumps({"keys": [{**public, "kid": each, "alg": "RS256"} for each in ids]})


class Loop:
    """An event loop whose clock the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


async def read(keys: Jwks) -> None:
    assert keys._reading is not None
    await keys._reading


async def test_keys_come_from_a_file_and_are_read_again_for_an_unknown_one(tmp_path: Path) -> None:
    file, loop = tmp_path / "keys.json", Loop()
    file.write_text(key_set("old"))
    keys = Jwks(file.as_uri(), 3_600_000, loop)  # type: ignore[arg-type]
    assert keys.find("old") is not None
    assert keys.find(None) is keys.find("old"), "the only one"
    file.write_text(key_set("old", "new"))
    assert keys.find("new") is None
    assert keys._reading is None, "not at once: anybody can name a key"
    loop.now_s = LEAST_INTERVAL_S
    assert keys.find("new") is None
    await read(keys)
    assert keys.find("new") is not None
    assert keys.find(None) is None, "which of the two?"


async def test_keys_are_read_again_after_a_while_and_the_old_ones_stay_if_that_fails(tmp_path: Path) -> None:
    file, loop = tmp_path / "keys.json", Loop()
    file.write_text(key_set("one"))
    keys = Jwks(file.as_uri(), 60_000, loop)  # type: ignore[arg-type]
    file.write_text("nonsense")
    loop.now_s = 60.0
    assert keys.find("one") is not None
    await read(keys)
    assert keys.find("one") is not None
    file.write_text(key_set("two"))
    loop.now_s = 120.0
    keys.find("one")
    await read(keys)
    assert (keys.find("one"), keys.find("two") is None) == (None, False)


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(key_set("k").encode() if self.path == "/keys" else b" " * (MAX_BYTES + 1))

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    made = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(("path", "is_found"), [("/keys", True), ("/huge", False)])
async def test_keys_come_from_a_url_in_a_limited_size(server: str, path: str, is_found: bool) -> None:
    keys = Jwks(f"{server}{path}", 3_600_000, asyncio.get_running_loop())
    assert (keys.find("k") is not None) is is_found


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/keys", "keys.json", "file:///nowhere/keys.json"])
async def test_what_cannot_be_read_leaves_no_keys_and_stops_no_start(url: str) -> None:
    assert Jwks(url, 3_600_000, asyncio.get_running_loop()).find("k") is None


async def test_a_listener_checks_tokens_with_these_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(key_set("k"))
    given = [
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={file.as_uri()}",
        "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.sub.claim.name=azp",
        "sasl.oauthbearer.allow.unverified.audience=true",
        "sasl.oauthbearer.allow.unverified.issuer=true",
    ]
    settings = load(flags=[assignment(each, "--set") for each in given]).settings
    loop = asyncio.get_running_loop()
    (mechanism,) = Mechanisms(settings, "SASL_PLAINTEXT", loop, lambda *_: None).by_name.values()
    token = jwt.encode({"azp": "alice", "iat": 5, "exp": 1_000}, KEY, "RS256", headers={"kid": "k"})
    server = mechanism.begin()
    assert server.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), 10_000) == b""
    assert server.proved is not None
    assert (server.proved.name, server.proved.expires_ms) == ("alice", 1_000_000)
