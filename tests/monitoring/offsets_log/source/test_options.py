"""What a user can say to the source, and what he hears when it is wrong."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from coordinatord.monitoring.offsets_log.decode.projection import Names
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, PLACE
from coordinatord.monitoring.offsets_log.source.connecting import check
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.shapes import Shape


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "say where the log is"),
        ({"path": "a", "bootstrap": "b:1"}, "one of both"),
        ({"path": "a", "kinds": "offset_comits"}, "no kind offset_comits: did you mean offset_commits?"),
        ({"path": "a", "kind": "x", "kinds": "y"}, "kind or kinds, not both"),
        ({"path": "a", "group": "x"}, "no option group: did you mean groups?"),
        ({"path": "a", "partitions": "1-"}, "like 0,3,10-19"),
        ({"path": "a", "splitBytes": "0"}, "splitBytes=0: a whole number above 0"),
        ({"path": "a", "onReplaced": "ignore"}, "onReplaced=ignore: one of reread, fail"),
        ({"path": "a", "groups": "[1]"}, "is not a JSON list of names"),
        ({"path": "a", "kafka.security_protocol": "SSL"}, "there is no bootstrap"),
        ({"bootstrap": "a"}, "bootstrap a: HOST:PORT is wanted"),
        ({"bootstrap": "a:1,b:kafka"}, "bootstrap a:1,b:kafka: HOST:PORT is wanted"),
        ({"bootstrap": "a:0"}, "bootstrap a:0: HOST:PORT is wanted"),
        ({"bootstrap": "a:1", "maxBytesPerTrigger": "9"}, "use maxRecordsPerTrigger"),
    ],
)
def test_mistakes_are_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_options(given)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values() -> None:
    options = read_options(
        {
            "PATHS": '["a", "b"]',
            "Kinds": "offset_commits, quarantine",
            "groups": '["with,comma", "pay-*"]',
            "partitions": "0,3,10-12",
            "pushdown": "TRUE",
            "maxRecordsPerTrigger": "500",
            "option.maxRecordsPerTrigger": "500",  # this and the next as Spark has them of a table
            "provider": "consumer_offsets",
        }
    )
    assert options.paths == ("a", "b")
    assert options.kinds == ("offset_commits", "quarantine")
    assert options.partitions == {0, 3, 10, 11, 12}
    assert (options.pushdown, options.max_records, options.max_bytes) == (True, 500, None)
    wanted = pickle.loads(pickle.dumps(options)).wanted
    assert wanted.types == {0, 1}
    assert [wanted.has_group(name) for name in ("with,comma", "pay-1", "with", "PAY-1")] == [True, True, False, False]
    broker = read_options({"bootstrap": "h:1", "kafka.ssl_check_hostname": "false", "kafka.sasl_plain_password": "007"})
    assert broker.broker == {"ssl_check_hostname": False, "sasl_plain_password": "007"}
    assert "007" not in repr(broker)
    assert broker.kinds == tuple(KINDS)


def test_names_from_a_condition_are_no_patterns() -> None:
    names = Names(["a*", "b"], patterns=False)
    assert [name in pickle.loads(pickle.dumps(names)) for name in ("a*", "ab", "b")] == [True, False, True]


def test_patterns_have_stars_and_question_marks_alone() -> None:
    names = Names(["job[1]-*", "a?c", "[x]", "\u2603*"])
    told = [name in names for name in ("job[1]-a", "job1-a", "abc", "ac", "[x]", "x", "\u2603\n\u2603")]
    assert told == [True, False, True, False, True, False, True]


def test_a_log_is_in_a_database_or_in_directories() -> None:
    url = "postgresql://here/log"
    in_files = read_options({"path": "/data"})
    assert in_files.store is None
    assert dataclasses.replace(in_files, paths=(url,)).store == url
    assert read_options({"bootstrap": "here:9092"}).store is None


def test_shapes() -> None:
    one = Shape(["offset_commits"])
    assert one.schema.equals(KINDS["offset_commits"].schema)
    assert Shape(["offset_commits"], ["topic", "log_offset"]).schema.names == ["topic", "log_offset"]
    several = Shape(["offset_commits", "quarantine"])
    assert several.schema.names == [*(field.name for field in PLACE), "kind", "offset_commits", "quarantine"]
    with pytest.raises(SourceError, match="there is no column lag in offset_commits"):
        Shape(["offset_commits"], ["lag"])


SASL = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "u",
    "sasl_plain_password": "p",
}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"security_protocol": "SASL"}, "kafka.security_protocol=SASL: one of PLAINTEXT, SSL,"),
        (
            {"security_protocol": "SSL", "ssl_cafile": "/no/ca.pem"},
            "kafka.ssl_cafile=/no/ca.pem: there is no such file",
        ),
        ({"sasl_mechanism": "PLAIN"}, "kafka.sasl_mechanism is for SASL: set kafka.security_protocol"),
        ({**SASL, "sasl_mechanism": None}, "kafka.security_protocol=SASL_SSL wants kafka.sasl_mechanism, too"),
        ({**SASL, "sasl_plain_password": None}, "kafka.sasl_mechanism=PLAIN wants kafka.sasl_plain_password, too"),
    ],
)
def test_settings_that_no_broker_needs_to_refuse(settings: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(SourceError) as caught:
        check(settings)
    assert sentence in str(caught.value)
    check(SASL)
