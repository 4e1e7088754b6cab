"""AlterUserScramCredentials: make, replace and remove users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, bytes_, int8, int16, int32, message, string


@message()
class ScramCredentialDeletion:
    name: str = string("0+")
    mechanism: int = int8("0+")


@message()
class ScramCredentialUpsertion:
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = bytes_("0+")
    salted_password: bytes = bytes_("0+")


@message(versions="0", flexible="0+", api_key=51)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


@message()
class AlterUserScramCredentialsResult:
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@message(versions="0", flexible="0+", api_key=51)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")


def error_response(
    request: AlterUserScramCredentialsRequest, version: int, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    """Return the response with the error `code`."""
    names = {each.name for each in request.deletions} | {each.name for each in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(name, code, message_of(code)) for name in sorted(names)]
    )
