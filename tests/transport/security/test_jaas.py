"""Users in `sasl.jaas.config`."""

from __future__ import annotations

import pytest

from coordinatord.transport.security.jaas import options_of, users_of

NO_VALUE = r"has no value for user_a: write user_a="
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


@pytest.mark.parametrize(
    ("options", "read"),
    [
        (r'user_a="p\tq"', {"a": "p\tq"}),
        (r'user_a="p\061q\400\1777"', {"a": "p1q 0\x7f7"}),
        (r'user_a="p\"q\x"', {"a": 'p"qx'}),
        (r"user_a='p\'q'", {"a": "p'q"}),
        ("user_a=abc1 user_b=x-y.z user_c=$x_y", {"a": "abc1", "b": "x-y.z", "c": "$x_y"}),
        ('user_a="a/b" // user_b="c"', {"a": "a/b"}),
        ('/* c */ user_a="1" // d\n user_b="2"\n', {"a": "1", "b": "2"}),
        ('user_a="ab\n', {"a": "ab"}),
        ('"user_a@b"="x"', {"a@b": "x"}),
        ('user_\u00e9=\u00e9 user_\U0001d54f="p\u00aass\u00a0"', {"\u00e9": "\u00e9", "\U0001d54f": "p\u00aass\u00a0"}),
        ('user_a="x"user_b=""', {"a": "x", "b": ""}),
        ('user_a="x" user_a="y"', {"a": "y"}),
        ('user_1="x" user_a-b="y" user_a.b="z"', {"1": "x", "a-b": "y", "a.b": "z"}),
        ('\u00a0user_a="x"', {}),
    ],
)
def test_an_entry_is_read_as_kafka_reads_it(options: str, read: dict[str, str]) -> None:
    """Recorded from JaasConfig of Kafka 4.3.0: `//` begins a comment, a password in quotes ends with its line."""
    assert users_of(f"{MODULE} required {options}\n;") == read


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("user_a=1234;", NO_VALUE),
        ("user_a=1abc;", NO_VALUE),
        ("user_a=-x;", NO_VALUE),
        ("user_a@b=x;", NO_VALUE),
        ("user_a=\x85;", NO_VALUE),
        ("user_a=a/b;", "must be"),
        ('user_a="x" # no comment', "must be"),
        ('user_a="x"; Other required user_b="y";', "must be.* from ';' on"),
        ('user_a="x";;', "must be.* from ';' on"),
    ],
)
def test_what_kafka_refuses_is_refused(options: str, why: str) -> None:
    """By JaasConfig, or by JaasContext, which takes one entry."""
    with pytest.raises(ValueError, match=why):
        users_of(f"{MODULE} required {options}")
