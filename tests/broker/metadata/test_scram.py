"""SCRAM credentials: Kafka's answers (ScramControlManager, ScramImage), and what survives a crash."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import scramp

from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.metadata.scram import MAX_CHANGES, ScramApis, ScramCredentials
from coordinatord.transport.security.sasl import Proved
from coordinatord.transport.security.scram import Scram
from kafka_wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafka_wire.errors import ErrorCode
from tests.broker.metadata.world import Node

SALT = b"a salt of 19 bytes."
SHA_256, SHA_512 = 1, 2
NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}


class Context:
    """A request whose answer waits for the log."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.response: Any = None

    def answer_at(self, epoch: int, response: Any, failure: Any) -> None:
        self.epoch, self.response = epoch, response


class Apis(Node):
    """The handlers on a node with a disk."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.held = self.credentials = ScramCredentials()  # type: ignore[assignment]
        self.metadata.keep(lambda: self.held, 11, 22)
        self.metadata.load()
        self.apis = ScramApis(self.held, self.metadata)

    def alter(self, *changes: Any) -> dict[str, tuple[int, str | None]]:
        """User -> (error, message). What changes something waits for the log."""
        deletions = [each for each in changes if isinstance(each, ScramCredentialDeletion)]
        upsertions = [each for each in changes if isinstance(each, ScramCredentialUpsertion)]
        context: Any = Context()
        answer = self.apis.alter(context, AlterUserScramCredentialsRequest(deletions, upsertions))
        assert (answer is None) == (context.epoch is not None)
        results = (answer or context.response).results
        assert len({each.user for each in results}) == len(results)
        return {each.user: (each.error_code, each.error_message) for each in results}

    def describe(self, *users: str) -> dict[str, Any]:
        """User -> error, or its (mechanism, iterations)."""
        request = DescribeUserScramCredentialsRequest([UserName(user) for user in users])
        context: Any = Context()
        return {
            each.user: (each.error_code, each.error_message)
            if each.error_code
            else [(info.mechanism, info.iterations) for info in each.credential_infos]
            for each in self.apis.describe(context, request).results
        }


@pytest.fixture
def node() -> Apis:
    return Apis(SimulatedDisk())


def put(user: str, password: str = "secret", mechanism: int = SHA_256, iterations: int = 4096) -> Any:
    """What a client sends: the password is salted by it."""
    digest = {SHA_256: "sha256", SHA_512: "sha512"}.get(mechanism, "sha256")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), SALT, max(1, iterations))
    return ScramCredentialUpsertion(user, mechanism, iterations, SALT, salted)


def logs_in(node: Apis, mechanism: int, user: str, password: str) -> bool:
    server = Scram(NAMES[mechanism], lambda name: node.held.find(NAMES[mechanism], name))  # type: ignore[arg-type]
    client = scramp.ScramClient([NAMES[mechanism]], user, password)
    try:
        client.set_server_first(server.evaluate(client.get_client_first().encode(), 0).decode())
        client.set_server_final(server.evaluate(client.get_client_final().encode(), 0).decode())
    except Exception:
        return False
    return server.proved == Proved(user)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_user_logs_in_with_the_password_that_was_put_last(node: Apis, mechanism: int) -> None:
    assert node.alter(put("alice", mechanism=mechanism)) == {"alice": (0, None)}
    assert logs_in(node, mechanism, "alice", "secret")
    assert not logs_in(node, mechanism, "alice", "word")
    assert not logs_in(node, 3 - mechanism, "alice", "secret")
    node.alter(put("alice", "word", mechanism))
    assert logs_in(node, mechanism, "alice", "word")
    assert not logs_in(node, mechanism, "alice", "secret")
    node.alter(ScramCredentialDeletion("alice", mechanism))
    assert not logs_in(node, mechanism, "alice", "word")


def test_credentials_survive_a_kill() -> None:
    disk = SimulatedDisk()
    node = Apis(disk)
    node.alter(put("alice"), put("bob", mechanism=SHA_512))
    node.alter(ScramCredentialDeletion("bob", SHA_512))
    node.world.settle()
    disk.crash()
    again = Apis(disk)
    assert again.describe() == {"alice": [(SHA_256, 4096)]}
    assert logs_in(again, SHA_256, "alice", "secret")


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        (put(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (put("x", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (put("x", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (put("x", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (put("x", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            ScramCredentialUpsertion("x", SHA_256, 4096, b"short", b"salted"),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "The salt has fewer than 12 bytes",
        ),
        (
            ScramCredentialUpsertion("x", SHA_256, 4096, bytes(1_025), b"salted"),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "A name, a salt and a salted password may have 1024 bytes each",
        ),
        (
            ScramCredentialDeletion("x", SHA_256),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        (ScramCredentialDeletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
    ],
)
def test_what_cannot_be_changed_is_told_and_the_rest_changes(node: Apis, change: Any, error: int, told: str) -> None:
    assert node.alter(change, put("alice")) == {change.name: (error, told), "alice": (0, None)}
    assert node.describe() == {"alice": [(SHA_256, 4096)]}


def test_nobody_changes_twice_in_one_request(node: Apis) -> None:
    node.alter(put("bob"), put("carol"))
    twice = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    answer = node.alter(
        put("alice"), put("alice", mechanism=SHA_512),
        ScramCredentialDeletion("bob", SHA_256), put("bob", "word"),
        ScramCredentialDeletion("carol", SHA_256), ScramCredentialDeletion("carol", SHA_256),
    )  # fmt: skip
    assert answer == {"alice": twice, "bob": twice, "carol": twice}
    assert node.describe() == {"bob": [(SHA_256, 4096)], "carol": [(SHA_256, 4096)]}


def test_credentials_are_described_without_what_they_are_made_of(node: Apis) -> None:
    node.alter(put("alice", iterations=8192))
    node.alter(put("alice", mechanism=SHA_512), put("bob"))
    assert node.describe() == {"alice": [(SHA_256, 8192), (SHA_512, 4096)], "bob": [(SHA_256, 4096)]}
    assert node.describe("bob", "eve", "alice", "alice") == {
        "bob": [(SHA_256, 4096)],
        "eve": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: eve",
        ),
        "alice": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
        ),
    }


def test_a_request_changes_a_limited_number(node: Apis) -> None:
    answer = node.alter(*[ScramCredentialUpsertion(f"u{i}", 1, 4096, SALT, b"s") for i in range(MAX_CHANGES + 1)])
    assert {error for error, _ in answer.values()} == {ErrorCode.INVALID_REQUEST}
    assert node.describe() == {}


def test_only_the_owner_of_the_log_changes_credentials(node: Apis) -> None:
    """Another node asks it, as Kafka's brokers ask their controller; some clients take no error for another try."""
    asked: list[Any] = []
    context: Any = Context()

    def forward(context: Any, request: Any, unreachable: Any) -> None:
        asked.extend((context, request, unreachable))

    apis = ScramApis(node.held, node.metadata, forward)
    request = AlterUserScramCredentialsRequest(upsertions=[put("alice")])
    assert apis.alter(context, request) is None
    assert asked[:2] == [context, request]
    [told] = asked[2].results
    assert (told.user, told.error_code) == ("alice", ErrorCode.NOT_CONTROLLER)
    assert told.error_message, "kafka-python takes an error without a message for none"
    assert context.epoch is None
    assert node.describe() == {}
