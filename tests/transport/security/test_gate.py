"""The gate of a SASL listener: what is served before, while and after a client proves who it is."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.sasl_gate import SaslApis, SaslGate
from coordinatord.transport.security.plain import Plain
from coordinatord.transport.security.principal import ANONYMOUS, Principal
from coordinatord.transport.security.sasl import Mechanism
from kafka_wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.support.scene import HEARTBEAT, Scene
from tests.support.shell import Wire

ALICE = SaslAuthenticateRequest(b"\0alice\0secret")
WRONG = SaslAuthenticateRequest(b"\0alice\0wrong")
PLAIN = SaslHandshakeRequest("PLAIN")
VERSIONS = ApiVersionsRequest("test", "1")


class Alarms:
    """Timers of a clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.set: list[tuple[int, Callable[[], object], Alarms]] = []

    def alarm(self, at_ms: int, callback: Callable[[], object]) -> Any:
        alarms = self

        class Alarm:
            def cancel(self) -> None:
                alarms.set = [each for each in alarms.set if each[1] is not callback]

        self.set.append((at_ms, callback, self))
        return Alarm()

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        due = [each for each in self.set if each[0] <= self.now_ms]
        self.set = [each for each in self.set if each[0] > self.now_ms]
        for _, callback, _ in due:
            callback()


class Listener:
    """A scene behind a gate."""

    def __init__(self, max_reauth_ms: int = 0) -> None:
        self.scene = Scene(max_frame_bytes=10_000)
        self.alarms = Alarms()
        inside = self.scene.door
        apis = SaslApis().handlers()
        inside.router.routes.handlers |= apis  # type: ignore[attr-defined]
        self.gate = SaslGate(
            {"PLAIN": Mechanism("PLAIN", lambda: Plain({"alice": "secret", "bob": "word"}.get), max_reauth_ms)},
            ApiVersions([ApiKey.HEARTBEAT, *apis], {}),
            inside.metrics,
            protocol="SASL_SSL",
            delay_ms=100,
            timeout_ms=10_000,
            alarm=self.alarms.alarm,
            now_ms=lambda: self.alarms.now_ms,
            call_soon=self.scene.turns.call_soon,
        )
        self.outside = dataclasses.replace(
            inside, router=self.gate, max_frame_bytes=500, admit=lambda connection, _: self.gate.admit(connection)
        )
        self.gate.inside, self.gate.outside = inside, self.outside

    def wire(self) -> Wire:
        return Wire(self.outside, self.scene.turns)

    def logged_in(self) -> Wire:
        wire = self.wire()
        wire.send(PLAIN, 1)
        wire.send(ALICE, 2)
        return wire


def last(wire: Wire) -> Any:
    return wire.answers[-1][1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_is_served_once_it_has_proved_who_it_is(version: int) -> None:
    listener = Listener()
    wire = listener.wire()
    wire.send(VERSIONS, 3)
    assert {each.api_key for each in last(wire).api_keys} >= {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    wire.send(PLAIN, 1)
    assert last(wire) == SaslHandshakeResponse(ErrorCode.NONE, ["PLAIN"])
    assert wire.connection.principal is ANONYMOUS
    wire.send(ALICE, version)
    assert last(wire) == SaslAuthenticateResponse(ErrorCode.NONE, "", b"", 0)
    assert wire.connection.principal == Principal("User", "alice")
    wire.send(HEARTBEAT, 4)
    assert listener.scene.seen == ["heartbeat"]
    assert listener.alarms.set == [], "no timer of the login is left"


def test_a_request_before_that_ends_the_connection() -> None:
    listener = Listener()
    for first in ([], [(VERSIONS, 3)], [(PLAIN, 1)]):
        wire = listener.wire()
        for message, version in first:
            wire.send(message, version)
        wire.send(HEARTBEAT, 4)
        assert wire.connection.closed
    assert listener.scene.seen == []
    assert listener.scene.door.metrics.rejected["unauthenticated"] == 3


def test_what_follows_the_last_token_in_one_write_is_served_after_it_and_not_before() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.connection.data_received(wire.frame(PLAIN, 1) + wire.frame(ALICE, 2) + wire.frame(HEARTBEAT, 4))
    wire.turns.run()
    assert [type(answer).__name__ for _, answer in wire.answers] == [
        "SaslHandshakeResponse",
        "SaslAuthenticateResponse",
        "HeartbeatResponse",
    ]
    wire = listener.wire()
    wire.connection.data_received(wire.frame(PLAIN, 1) + wire.frame(WRONG, 2) + wire.frame(HEARTBEAT, 4))
    wire.turns.run()
    listener.alarms.advance(100)
    wire.turns.run()
    assert listener.scene.seen == ["heartbeat"]
    assert wire.connection.closed


def test_a_failure_is_answered_after_the_delay_and_then_the_connection_ends() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.send(PLAIN, 1)
    wire.send(WRONG, 2)
    assert len(wire.answers) == 1
    listener.alarms.advance(99)
    assert len(wire.answers) == 1
    listener.alarms.advance(1)
    wire.turns.run()
    assert last(wire) == SaslAuthenticateResponse(
        ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password"
    )
    assert wire.connection.closed


def test_a_client_that_goes_during_the_delay_is_forgotten() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.send(PLAIN, 1)
    wire.send(WRONG, 2)
    wire.connection.connection_lost(None)
    assert listener.alarms.set == []


def test_a_client_that_takes_too_long_is_cut_off() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.send(PLAIN, 1)
    listener.alarms.advance(9_999)
    assert not wire.connection.closed
    listener.alarms.advance(1)
    assert wire.connection.closed


def test_a_frame_is_small_until_the_client_is_known() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.connection.data_received((501).to_bytes(4, "big"))
    assert wire.connection.closed
    wire = listener.logged_in()
    wire.connection.data_received((501).to_bytes(4, "big"))
    assert not wire.connection.closed


def test_version_0_of_the_handshake_is_followed_by_bare_tokens() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.send(PLAIN, 0)
    token = bytes(ALICE.auth_bytes)
    before = len(wire.transport.written)
    wire.connection.data_received(len(token).to_bytes(4, "big") + token)
    assert bytes(wire.transport.written)[before:] == bytes(4), "an empty token"
    del wire.transport.written[before:]
    wire.send(HEARTBEAT, 4)
    assert listener.scene.seen == ["heartbeat"]
    wire = listener.wire()
    wire.send(PLAIN, 0)
    wire.connection.data_received(len(b"x").to_bytes(4, "big") + b"x")
    listener.alarms.advance(100)
    assert wire.connection.closed
    assert len(wire.answers) == 1


def test_a_turn_looks_at_one_bare_token() -> None:
    """Whoever is not known yet may send many at once: each may need a signature to be checked."""

    class Counting:
        proved = None
        count = 0

        def evaluate(self, token: bytes, now_ms: int) -> bytes:
            self.count += 1
            return b"another"

    listener, counting = Listener(), Counting()
    listener.gate.mechanisms = {"COUNTING": Mechanism("COUNTING", lambda: counting)}
    wire = listener.wire()
    wire.send(SaslHandshakeRequest("COUNTING"), 0)
    before = len(wire.transport.written)
    wire.connection.data_received(b"\0\0\0\1x" * 5)
    assert counting.count == 1
    wire.turns.run()
    assert counting.count == 5
    assert bytes(wire.transport.written)[before:] == b"\0\0\0\7another" * 5


def test_a_session_that_ends_must_be_renewed_before_anything_else() -> None:
    listener = Listener(max_reauth_ms=5_000)
    wire = listener.logged_in()
    assert last(wire).session_lifetime_ms == 5_000
    listener.alarms.advance(4_999)
    wire.send(HEARTBEAT, 4)
    listener.alarms.advance(1)
    wire.send(PLAIN, 1)
    wire.send(ALICE, 2)
    assert last(wire).session_lifetime_ms == 5_000
    wire.send(HEARTBEAT, 4)
    assert listener.scene.seen == ["heartbeat"] * 2
    listener.alarms.advance(5_000)
    with captured() as lines:
        wire.send(HEARTBEAT, 4)
    assert wire.connection.closed
    assert listener.scene.seen == ["heartbeat"] * 2
    [line] = lines
    assert line["reason"] == "the client did not reauthenticate before its session ended"
    assert line["advice"] == (
        "use a client that reauthenticates (KIP-368); a session ends after connections.max.reauth.ms, or with its "
        "token, whichever is first"
    ), "not the settings of SASL, which the client has"


def test_a_session_is_renewed_in_time_on_the_same_connection() -> None:
    listener = Listener(max_reauth_ms=5_000)
    wire = listener.logged_in()
    listener.alarms.advance(4_000)
    wire.send(HEARTBEAT, 4)
    wire.connection.data_received(wire.frame(HEARTBEAT, 4) + wire.frame(PLAIN, 1))
    wire.turns.run()
    wire.send(ALICE, 2)
    listener.alarms.advance(4_000)
    wire.send(HEARTBEAT, 4)
    assert listener.scene.seen == ["heartbeat"] * 3
    assert not wire.connection.closed


def test_while_a_session_is_renewed_nothing_else_is_served() -> None:
    listener = Listener(max_reauth_ms=5_000)
    wire = listener.logged_in()
    wire.connection.data_received(wire.frame(PLAIN, 1) + wire.frame(HEARTBEAT, 4))
    wire.turns.run()
    assert wire.connection.closed
    assert listener.scene.seen == []


def test_a_handshake_out_of_place_is_an_illegal_state() -> None:
    listener = Listener()
    wire = listener.logged_in()
    wire.send(PLAIN, 1)
    assert last(wire) == SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    wire.send(ALICE, 2)
    assert last(wire).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not wire.connection.closed


@pytest.mark.parametrize("max_reauth_ms", [0, 5_000])
def test_api_versions_instead_of_a_token_is_an_illegal_state(max_reauth_ms: int) -> None:
    listener = Listener(max_reauth_ms)
    wire = listener.logged_in() if max_reauth_ms else listener.wire()
    wire.send(PLAIN, 1)
    wire.send(VERSIONS, 3)
    assert last(wire) == SaslHandshakeResponse(ErrorCode.NONE, ["PLAIN"]), "no response before the delay"
    listener.alarms.advance(100)
    wire.turns.run()
    assert last(wire) == ApiVersionsResponse(ErrorCode.ILLEGAL_SASL_STATE)
    assert wire.connection.closed
    assert listener.scene.door.metrics.rejected["unauthenticated"] == 1


def test_an_unknown_mechanism_is_told_those_there_are_and_then_the_connection_ends() -> None:
    listener = Listener()
    wire = listener.wire()
    wire.send(SaslHandshakeRequest("GSSAPI"), 1)
    listener.alarms.advance(100)
    wire.turns.run()
    assert last(wire) == SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert wire.connection.closed


@pytest.mark.parametrize("seed", range(20))
def test_nonsense_closes_the_connection_or_waits_and_lets_nobody_in(seed: int) -> None:
    chance = random.Random(seed)
    listener = Listener(max_reauth_ms=5_000)
    for _ in range(50):
        wire = listener.wire()
        known = [(VERSIONS, 3), (PLAIN, 0), (PLAIN, 1), (WRONG, 0), (WRONG, 2), (HEARTBEAT, 4)]
        for _ in range(chance.randrange(1, 6)):
            if chance.random() < 0.5:
                frame = bytearray(wire.frame(*chance.choice(known)))
                if chance.random() < 0.5:
                    frame[chance.randrange(4, len(frame))] = chance.randrange(256)
                data = bytes(frame)
            else:
                body = chance.randbytes(chance.randrange(40))
                data = len(body).to_bytes(4, "big") + body
            wire.connection.data_received(data)
            wire.turns.run()
            if chance.random() < 0.3:
                listener.alarms.advance(chance.choice([1, 100, 10_000]))
                wire.turns.run()
        assert wire.connection.principal is ANONYMOUS
    assert listener.scene.seen == []
