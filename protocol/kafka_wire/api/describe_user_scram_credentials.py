"""DescribeUserScramCredentials: the users with SCRAM credentials, and their mechanisms (KIP-554)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, message, string


@message()
class UserName:
    name: str = string("0+")


@message(versions="0", flexible="0+", api_key=50)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = array(UserName, "0+", nullable="0+")


@message()
class CredentialInfo:
    mechanism: int = int8("0+")
    iterations: int = int32("0+")


@message()
class DescribeUserScramCredentialsResult:
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


@message(versions="0", flexible="0+", api_key=50)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")


def error_response(
    request: DescribeUserScramCredentialsRequest, version: int, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """Return the response with the error `code`."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message_of(code))
