"""SCRAM credentials of users: the image of their records, and the APIs that change and describe them (KIP-554).

The server never receives a password: a client salts and hashes it, and the logged keys can verify a proof but not
create one. The records and the responses are Kafka's (ScramControlManager, ScramImage).
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from coordinatord.broker.metadata.forwarding import NOT_CONTROLLER, Forward
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_wire.api.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.records.cluster_metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord

MECHANISMS: Final = {1: ("SCRAM-SHA-256", "sha256"), 2: ("SCRAM-SHA-512", "sha512")}
"""(name, hash) by Kafka's number of the mechanism."""

NUMBERS: Final = {name: number for number, (name, _) in MECHANISMS.items()}

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
LEAST_SALT: Final = 12
"""Shortest salt in bytes; Kafka accepts any. Kafka's own tools create 26 bytes, and others 32 or more."""
MAX_CREDENTIALS: Final = 10_000
"""Largest number of credentials. Kafka has no limit; a description of so many takes some milliseconds."""
MOST_BYTES: Final = 1_024
"""Largest size in bytes of each part of a credential: all of them are held in memory. Kafka has no limit."""
MAX_CHANGES: Final = 1_000
"""Largest number of changes in one request: some milliseconds of hashing. Kafka has no limit."""

Problem = tuple[int, str]
"""(error code, message)."""

TWICE: Final = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


class Stored(NamedTuple):
    """Stored keys that verify a proof; the fields are those of security.scram.Credential."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramCredentials:
    """All credentials by (user, number of the mechanism). An image of the metadata log."""

    def __init__(self) -> None:
        self.by_user: dict[tuple[str, int], Stored] = {}

    def find(self, mechanism: str, user: str) -> Stored | None:
        """Return a user's credential for a mechanism, by the mechanism's name; None if there is none."""
        return self.by_user.get((user, NUMBERS[mechanism]))

    def replay(self, record: Any) -> None:
        """Apply a record."""
        key = (record.name, record.mechanism)
        if isinstance(record, RemoveUserScramCredentialRecord):
            self.by_user.pop(key, None)
        else:
            self.by_user[key] = Stored(
                bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
            )

    def records(self) -> Iterator[Any]:
        """Yield records that build this image from an empty one."""
        for (user, mechanism), stored in list(self.by_user.items()):
            if (user, mechanism) in self.by_user:
                yield UserScramCredentialRecord(user, mechanism, *stored)

    def clear(self) -> None:
        """Remove all credentials."""
        self.by_user.clear()


class ScramApis:
    """Handlers of the SCRAM APIs. `forward` sends a request to the process that owns the log, if
    that is another one.
    """

    def __init__(self, credentials: ScramCredentials, metadata: MetadataLog, forward: Forward | None = None) -> None:
        self._forward = forward
        self._credentials = credentials
        self._metadata = metadata

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe,
        }

    def alter(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse | None:
        """Handle AlterUserScramCredentials v0: all changes without an error take effect together."""
        users = list(dict.fromkeys([each.name for each in request.deletions] + [up.name for up in request.upsertions]))
        if len(request.deletions) + len(request.upsertions) > MAX_CHANGES:
            return _all(users, (ErrorCode.INVALID_REQUEST, f"A request may have at most {MAX_CHANGES} changes"))
        if self._forward is not None:
            self._forward(context, request, _all(users, (ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER)))
            return None
        problems: dict[str, Problem] = {}
        deletions: dict[str, ScramCredentialDeletion] = {}
        upsertions: dict[str, ScramCredentialUpsertion] = {}
        for deletion in request.deletions:
            _put(deletions, deletion, deletions, problems, self._why_not_removed(deletion))
        for upsertion in request.upsertions:
            _put(upsertions, upsertion, {**deletions, **upsertions}, problems, self._why_not_put(upsertion))
        for user in problems:
            deletions.pop(user, None)
            upsertions.pop(user, None)
        response = AlterUserScramCredentialsResponse(
            results=[
                *(AlterUserScramCredentialsResult(user, ErrorCode.NONE, None) for user in (*deletions, *upsertions)),
                *(AlterUserScramCredentialsResult(user, *problem) for user, problem in problems.items()),
            ]
        )
        records: list[Any] = [RemoveUserScramCredentialRecord(each.name, each.mechanism) for each in deletions.values()]
        records += [_record(each) for each in upsertions.values()]
        if not records:
            return response
        failed = _all(users, (ErrorCode.UNKNOWN_SERVER_ERROR, None))
        context.answer_at(self._metadata.append(records), response, lambda: failed)
        return None

    def _why_not_removed(self, deletion: ScramCredentialDeletion) -> Problem | None:
        problem = _why_nobodys(deletion.name, deletion.mechanism)
        if problem is None and (deletion.name, deletion.mechanism) not in self._credentials.by_user:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return problem

    def _why_not_put(self, upsertion: ScramCredentialUpsertion) -> Problem | None:
        problem = _why_nobodys(upsertion.name, upsertion.mechanism)
        if problem is not None:
            return problem
        reason = None
        if upsertion.iterations < MIN_ITERATIONS:
            reason = "Too few iterations"
        elif upsertion.iterations > MAX_ITERATIONS:
            reason = "Too many iterations"
        elif len(upsertion.salt) < LEAST_SALT:
            reason = f"The salt has fewer than {LEAST_SALT} bytes"
        elif max(len(upsertion.name), len(upsertion.salt), len(upsertion.salted_password)) > MOST_BYTES:
            reason = f"A name, a salt and a salted password may have {MOST_BYTES} bytes each"
        elif len(self._credentials.by_user) >= MAX_CREDENTIALS:
            reason = f"There are {MAX_CREDENTIALS} credentials already"
        return None if reason is None else (ErrorCode.UNACCEPTABLE_CREDENTIAL, reason)

    def describe(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """Handle DescribeUserScramCredentials v0; without names, describe all users."""
        asked = Counter(each.name for each in request.users or ())
        found: dict[str, list[CredentialInfo]] = {}
        for (user, mechanism), stored in sorted(self._credentials.by_user.items(), key=lambda each: each[0]):
            if not asked or user in asked:
                found.setdefault(user, []).append(CredentialInfo(mechanism, stored.iterations))
        results = []
        for user in asked or found:
            if asked[user] > 1:
                told = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                results.append(DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, told))
            elif user not in found:
                told = f"Attempt to describe a user credential that does not exist: {user}"
                results.append(DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, told))
            else:
                results.append(DescribeUserScramCredentialsResult(user, credential_infos=found[user]))
        return DescribeUserScramCredentialsResponse(results=results)


def _all(users: Sequence[str], problem: tuple[int, str | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, *problem) for user in users]
    )


def _put(
    into: dict[str, Any], change: Any, changed: dict[str, Any], problems: dict[str, Problem], problem: Problem | None
) -> None:
    """Add a change, or its problem. A user that occurs twice keeps the first problem."""
    user = change.name
    if user in problems:
        return
    if user in changed:
        problems[user] = TWICE
    elif problem is not None:
        problems[user] = problem
    else:
        into[user] = change


def _why_nobodys(user: str, mechanism: int) -> Problem | None:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _record(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    """Return the record of an upsertion. RFC 5802: StoredKey = H(HMAC(SaltedPassword, "Client Key")), ServerKey =
    HMAC(SaltedPassword, "Server Key").
    """
    digest = MECHANISMS[upsertion.mechanism][1]
    salted = bytes(upsertion.salted_password)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return UserScramCredentialRecord(
        upsertion.name,
        upsertion.mechanism,
        bytes(upsertion.salt),
        hashlib.new(digest, client_key).digest(),
        hmac.digest(salted, b"Server Key", digest),
        upsertion.iterations,
    )
