"""Settings of TLS and SASL: overrides by listener and mechanism, rules, and what nobody is shown."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from coordinatord.base.config import TABLE, ConfigError, Entry, Settings, load
from coordinatord.base.config.load import assignment
from coordinatord.cli.settings import settings as command
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.topics.world import World

SECRETS = {
    "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.truststore.password", "ssl.truststore.certificates", "sasl.jaas.config", "test.users", "test.control.token",
}  # fmt: skip
BROKER = 4


def settings_of(*assignments: str) -> Settings:
    return load(flags=[assignment(text, "--set") for text in assignments]).settings


def problem_of(*assignments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_of(*assignments)
    return "\n".join(caught.value.problems)


def test_a_listener_has_its_own_settings_and_a_mechanism_of_it_too() -> None:
    settings = settings_of(
        "listeners=IN://h:1,OUT://h:2",
        "listener.security.protocol.map=IN:SASL_PLAINTEXT,OUT:SASL_SSL",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        "ssl.keystore.location=all.pem",
        "connections.max.reauth.ms=1000",
        "listener.name.out.ssl.keystore.location=out.pem",
        "listener.name.out.connections.max.reauth.ms=2000",
        "listener.name.out.scram-sha-512.connections.max.reauth.ms=3000",
        "listener.name.out.plain.sasl.jaas.config=M required user_a=b;",
        "listener.name.out.ssl.client.auth=none",
    )
    assert settings.of_listener("IN").ssl_keystore_location == "all.pem"
    assert settings.of_listener("OUT").ssl_keystore_location == "out.pem"
    reauth = [
        settings.of_listener(listener, mechanism).connections_max_reauth_ms
        for listener, mechanism in (("IN", "PLAIN"), ("OUT", "PLAIN"), ("OUT", "SCRAM-SHA-512"))
    ]
    assert reauth == [1000, 2000, 3000]
    assert settings.of_listener("OUT", "PLAIN").sasl_jaas_config == "M required user_a=b;"
    assert settings.of_listener("OUT", "SCRAM-SHA-512").sasl_jaas_config is None
    assert settings.protocols == {"IN": "SASL_PLAINTEXT", "OUT": "SASL_SSL"}


def test_an_override_without_effect_is_named() -> None:
    loaded = load(flags=[Entry("listener.name.plaintext.max.connections", "5", "--set")])
    assert loaded.warnings == ("listener.name.plaintext.max.connections has no effect here.",)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["listeners=SSL://:1", "ssl.keystore.location=a", "ssl.keystore.type=JKS"], "ssl.keystore.type=JKS is Java's"),
        (["listeners=SSL://:1", "ssl.keystore.location=a", "ssl.client.auth=required"], "trusts none: give ssl.trust"),
        (["listeners=SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms=OAUTHBEARER"], "cannot check tokens"),
        (
            [
                "listeners=SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms=OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url=file:///keys.json", "sasl.oauthbearer.expected.issuer=us",
            ],
            "give sasl.oauthbearer.expected.audience, or sasl.oauthbearer.allow.unverified.audience=true",
        ),
        (
            [
                "listeners=SASL_PLAINTEXT://127.0.0.1:1", "test.users=a:b",
                "test.control.enable=true", "admin.listeners=127.0.0.1:0",
            ],
            "test.control.enable=true lets whoever reaches admin.listeners do what the listeners ask a password for",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_told_at_the_start(given: list[str], told: str) -> None:
    assert told in problem_of(*given)


def test_the_control_of_tests_is_there_with_a_token() -> None:
    settings_of(
        "listeners=SASL_PLAINTEXT://127.0.0.1:1", "test.users=a:b", "test.control.enable=true",
        "admin.listeners=127.0.0.1:0", "test.control.token=xyz",
    )  # fmt: skip


def test_secrets_are_those_and_no_others() -> None:
    assert {name for name, row in TABLE.items() if row.is_secret} == SECRETS


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "toml"]])
def test_nobody_is_shown_a_password_on_the_terminal(form: list[str]) -> None:
    result = CliRunner().invoke(
        command, ["--set", "ssl.key.password=hunter2", "--set", "test.users=alice:hunter2", "password", "users", *form]
    )
    assert "ssl.key.password" in result.output
    assert "hunter2" not in result.output


def test_nobody_is_told_a_password_over_the_wire() -> None:
    world = World(ssl_key_password="hunter2", test_users=(("alice", "hunter2"),), test_control_token="hunter2")
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "0", None)], include_synonyms=True)
    (result,) = world.call(32, 4, request).results
    found = {each.name: each for each in result.configs}
    for name in SECRETS:
        assert (found[name].value, found[name].is_sensitive) == (None, True)
        assert [each.value for each in found[name].synonyms if each.value] == []
    told = [(each.name, each.value, [synonym.value for synonym in each.synonyms]) for each in result.configs]
    assert "hunter2" not in repr(told)
