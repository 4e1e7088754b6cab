"""The story of a consumer group (epochs_story.py) on our daemon, with real consumers: the ledger has the cause of each
epoch as the script played it, and the pipeline tells the same from the log alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.monitoring.analysis.epoch_rebalances import epoch_rebalances
from coordinatord.monitoring.analysis.group_epochs import epochs
from coordinatord.monitoring.offsets_log.source.ledger_topic import ledger_of
from coordinatord.monitoring.offsets_log.source.options import read_options
from kafka_wire.records.rebalance_ledger import Outcome
from tests.daemon import running
from tests.monitoring.pipeline.epochs_story import GROUP, OVERRIDES, SESSION_MS, Play, play
from tests.monitoring.pipeline.test_kafka_epochs import Log

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]


class OnOurs(Play):
    """Without looks by Kafka's own tool."""

    def look(self) -> None:
        """Nobody looks."""


def test_the_story_on_the_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka")
    with running(tmp_path, OVERRIDES) as daemon:
        story = play(daemon, OnOurs)
        why = CliRunner().invoke(cli, ["groups", "why", GROUP, "--bootstrap", daemon.bootstrap, "--last", "99"])
        assert daemon.stop() == 0
    told = [json.loads(text) for *_, text in ledger_of(read_options({"paths": json.dumps([str(daemon.data_dir)])}), {})]
    with capsys.disabled():
        print("", why.output, sep="\n")

    steps = [step for step in story.steps if step.trigger is not None]
    assert [record["trigger"]["kind"] for record in told] == [step.trigger for step in steps]
    assert [record["generation_after"] for record in told] == list(range(2, 2 + len(steps)))
    clients = {each["member_id"]: each["client_id"] for record in told for each in record["members"]}
    assert [clients.get(record["trigger"].get("member_id")) for record in told] == [step.client for step in steps]
    assert {record["outcome"] for record in told[:-1]} <= {Outcome.COMPLETED, Outcome.SUPERSEDED}
    assert told[-1]["outcome"] == Outcome.EMPTY
    for record in told:
        if record["assigned_ms"] is not None:
            given = sum(len(each) for some in record["members"] for each in some.get("got", {}).values())
            assert given == record["got"]

    log = Log(daemon.data_dir)
    rows = list(epoch_rebalances(epochs(log.rows, story.topic_ids, SESSION_MS), log.commits))
    assert [(row.trigger, row.generation, row.began_ms) for row in rows] == [
        (record["trigger"]["kind"], record["generation_after"], record["began_ms"]) for record in told
    ]
    # On a quiet machine 0.9. Where a member is slow to die, or an expression to be resolved, the log tells less.
    unsure = [(row.trigger, row.how, row.confidence) for row in rows if (row.confidence or 0) < 0.8]
    assert not unsure
