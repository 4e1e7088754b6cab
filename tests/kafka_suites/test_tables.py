"""The tables of docs/conformance.md are those of what is stored, and every difference has a reason."""

from __future__ import annotations

from tests.kafka_suites import stored, table
from tests.kafka_suites.play import Played, read_report
from tests.kafka_suites.suites import NOT_APPLICABLE, QUICK, REASONS, classes

REPORT = """<testsuite>
<testcase name="works()[1]" classname="kafka.server.T"/>
<testcase name="breaks()[1]" classname="kafka.server.T">
  <failure message="expected: 1&#10;but was: 2" type="org.opentest4j.AssertionFailedError">trace</failure>
</testcase>
<testcase name="looks()[2]" classname="kafka.server.T">
  <skipped>org.opentest4j.TestAbortedException: looks into the broker: BrokerServer.metrics&#10;	at x</skipped>
</testcase>
</testsuite>"""
HEARTBEATS = "kafka.server.HeartbeatRequestTest"


def test_a_report_has_passed_failed_and_aborted_tests() -> None:
    played = read_report(REPORT)
    assert played.passed == ["works()[1]"]
    assert played.failed == {"breaks()[1]": "AssertionFailedError: expected: 1"}
    assert played.aborted == {"looks()[2]": "looks into the broker: BrokerServer.metrics"}


def test_the_table_counts_what_passes_on_kafka_and_is_applicable() -> None:
    kafka = Played(["a()[1]", "b()[1]", "c()[1]"], {"d()[1]": "flaky"})
    ours = Played(["a()[1]", "d()[1]"], {"b()[1]": "wrong"}, {"c()[1]": "looks into the broker: BrokerServer.metrics"})
    lines = table.tables({HEARTBEATS: kafka}, {HEARTBEATS: ours}).splitlines()
    assert "| kafka_2.13: HeartbeatRequestTest | 4 | 1 | 2 | 1 |" in lines
    assert "| HeartbeatRequestTest.b | not looked into |" in lines
    assert "| HeartbeatRequestTest | looks into the broker: BrokerServer.metrics | c |" in lines
    assert "on Kafka and are applicable, 1 pass here: 50.0 %." in lines


def test_a_failed_test_that_is_listed_as_not_applicable_is_no_difference() -> None:
    name = "org.apache.kafka.clients.admin.ListOffsetsIntegrationTest"
    ours = Played(["a()[1]"], {"b()[1]": "NoSuchElementException: No value present"})
    lines = table.tables({name: Played(["a()[1]", "b()[1]"])}, {name: ours}).splitlines()
    assert "| kafka-clients-integration-tests: ListOffsetsIntegrationTest | 2 | 1 | 1 | 1 |" in lines
    assert f"| ListOffsetsIntegrationTest | {NOT_APPLICABLE['ListOffsetsIntegrationTest']} | b |" in lines


def test_the_page_has_the_tables_of_what_is_stored() -> None:
    text = table.PAGE.read_text()
    assert table.page(text) == text, "python -m tests.kafka_suites table"


def test_each_difference_has_a_reason() -> None:
    kafka, ours = stored.read("kafka"), stored.read("coordinatord")
    played = [name for name in classes() if name in kafka and name in ours]
    differing = [(name, test) for name in played for test in table.missed(name, kafka[name], ours[name])]
    assert [f"{name}.{test}" for name, test in differing if not table.reason(name, test)] == []
    needed = {table.short(name) for name, _ in differing} | {
        f"{table.short(name)}.{table.method(test)}" for name, test in differing
    }
    assert REASONS.keys() <= needed, "a reason that outlives its difference"
    failed = {(name, test) for name in played for test in ours[name].failed}
    names = {table.short(name) for name, _ in failed} | {f"{table.short(n)}.{table.method(t)}" for n, t in failed}
    assert NOT_APPLICABLE.keys() <= names, "a test that is listed as not applicable does not fail"


def test_the_quick_classes_are_among_those_that_are_stored() -> None:
    assert set(QUICK) <= stored.read("kafka").keys()
