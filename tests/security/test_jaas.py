"""Users in `sasl.jaas.config`."""

from __future__ import annotations

import pytest

from coordinatord.security.jaas import options_of, users_of

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_users_are_the_options_that_begin_so() -> None:
    text = f"""{MODULE} required
        username="admin" password="admin-secret"
        user_admin="admin-secret"
        user_alice='a "b" c' user_bob=plain user_o'="x;\\"y";"""
    text = text.replace("user_o'", "user_o")
    assert users_of(text) == {"admin": "admin-secret", "alice": 'a "b" c', "bob": "plain", "o": 'x;"y'}
    assert options_of(text)["username"] == "admin"


@pytest.mark.parametrize(
    "text",
    [
        "",
        MODULE,
        f"{MODULE} required user_alice=secret",
        f"{MODULE} perhaps user_alice=secret;",
        f"{MODULE} required user_alice;",
        f"{MODULE} required user_alice secret x;",
        f'{MODULE} required user_alice="secret;',
    ],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|cannot be read|has no value"):
        users_of(text)
