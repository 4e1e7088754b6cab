"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from coordinatord.testing import Kafka

pytest_plugins = ("pytester",)

# A run of its own unloads what it has loaded: without these, some modules would be there twice afterwards.
for name in ("server.control.http", "server.daemon.daemon", "testing.kafka", "testing.report"):
    importlib.import_module(f"coordinatord.{name}")
importlib.import_module("tests.server.control.world")

OURS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "coordinatord.testing.plugin",
    "-o",
    "asyncio_mode=auto",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> object:
    """Runs a file of tests; `options` are pytest's."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(*OURS, "-p", "pytest_asyncio.plugin", *options)

    return run


def test_a_test_needs_no_conftest(run: object) -> None:
    result = run(  # type: ignore[operator]
        """
        import pytest
        from coordinatord.testing import Kafka

        pytestmark = pytest.mark.kafka(topics={"orders": 4}, settings={"group.max.size": 5})

        def test_put(kafka: Kafka) -> None:
            kafka.put("orders", range(8))
            assert kafka.records("orders", decode=int) == list(range(8))

        def test_it_is_another_one(kafka: Kafka) -> None:
            assert kafka.records("orders") == []

        @pytest.mark.kafka(topics={"payments": 1})
        def test_markers_add_up(kafka: Kafka) -> None:
            assert kafka.end_offsets("payments") == {("payments", 0): 0}
            assert len(kafka.end_offsets("orders")) == 4

        def test_a_session_has_one(kafka_session: Kafka) -> None:
            kafka_session.put("shared", ["a"])

        def test_and_it_is_the_same(kafka_session: Kafka) -> None:
            assert kafka_session.records("shared") == [b"a"]

        async def test_in_a_coroutine(kafka: Kafka) -> None:
            view = await kafka.group("g").until(lambda view: view.state == "Dead")
            assert view.members == ()
        """
    )
    result.assert_outcomes(passed=6)


FAILING = """
    import pytest
    from tests.server.control.world import Client

    @pytest.mark.kafka(topics={"t": 1})
    def test_it(kafka):
        client = Client(kafka, "a").join()
        with kafka.fail("Heartbeat", "NOT_COORDINATOR", times=2):
            client.heartbeat()
        assert %s
    """


def test_a_failed_test_tells_what_its_kafka_went_through(run: object) -> None:
    result = run(FAILING % "client is None")  # type: ignore[operator]
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines_random(
        [
            r"-+ kafka: what the groups went through -+",
            r"Group g is Stable in generation 1 with a \(t \[0\]\)\.",
            r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d\d\dZ  generation 0 → 1, \d+ ms, completed: new member a-.*",
            r"fail Heartbeat with NOT_COORDINATOR \(2 times\): 1 of 1 requests",
            r"-+ kafka: the last requests of each client -+",
            r"  .*  Heartbeat v4 \[fail\]",
            r"-+ kafka: log -+",
            r".* INFO    group transition group='g' old='CompletingRebalance' new='Stable' .*",
        ]
    )


def test_a_test_that_leaves_members_behind_is_warned(run: object) -> None:
    kept = "globals().setdefault('kept', client)"  # its connection stays open
    result = run(FAILING % kept, "-W", "always::coordinatord.testing.KafkaLeftovers")  # type: ignore[operator]
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*KafkaLeftovers: test_it: group g still has 1 members (a): close them"])
    assert "INFO" not in result.stdout.str()


def test_members_of_closed_clients_are_no_leftovers(run: object) -> None:
    """A client that is told UNKNOWN_MEMBER_ID joins anew, and what it was stays a member until its session ends."""
    result = run(  # type: ignore[operator]
        """
        from tests.server.control.world import Client
        from tests.support.waiting import wait_until

        def test_it(kafka):
            Client(kafka, "a").join().wire.close()
            link = kafka._server.link
            wait_until(lambda: "a" not in link.call("last_requests")["connected"], "the end of the connection")
            assert len(kafka.group("g").members) == 1
        """,
        "-W",
        "always::coordinatord.testing.KafkaLeftovers",
    )
    result.assert_outcomes(passed=1, warnings=0)


def test_a_test_that_leaves_a_transaction_open_is_warned(run: object) -> None:
    result = run(  # type: ignore[operator]
        """
        import pytest
        from tests.server.control.test_verbs import begin_transaction
        from tests.server.control.world import TOPIC, Client

        @pytest.mark.kafka(topics={TOPIC: 1})
        def test_it(kafka):
            begin_transaction(Client(kafka, "p"), "t1")
        """,
        "-W",
        "always::coordinatord.testing.KafkaLeftovers",
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*KafkaLeftovers: test_it: transactional id t1 has an open transaction: commit or*"])


def test_the_log_is_shown_always_if_wanted(run: object) -> None:
    result = run(FAILING % "client", "--kafka-log=always", "-rP")  # type: ignore[operator]
    result.stdout.fnmatch_lines(["*INFO*group transition group='g'*"])


def test_a_fault_that_never_fires_fails_the_test(run: object) -> None:
    result = run(  # type: ignore[operator]
        """
        def test_it(kafka):
            with kafka.drop("Produce", after=True):
                pass
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NeverFired: This fault has never fired: drop after it is processed Produce; no*"])


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("topic={'orders': 1}", "@pytest.mark.kafka takes topics, settings, seed, not topic."),
        ("'orders'", "@pytest.mark.kafka takes topics, settings, seed, not arguments without a name."),
        ("settings={'group.maxsize': 1}", "*no setting 'group.maxsize' (settings=). Did you mean group.max.size?"),
        ("settings={'group.max.size': 0}", "*group.max.size must be at least 1, not 0 (settings=)."),
        ("settings={'workers': 2}", 'A server in a thread is one process: `workers` needs Kafka("process", …).'),
    ],
)
def test_mistakes_get_a_sentence(run: object, marker: str, sentence: str) -> None:
    result = run(  # type: ignore[operator]
        f"""
        import pytest

        @pytest.mark.kafka({marker})
        def test_it(kafka):
            pass
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence.replace("[", "[[]")])


def test_where_kafka_is_must_be_a_place(run: object) -> None:
    result = run("def test_it(kafka): pass", "--kafka=docker")  # type: ignore[operator]
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["Where Kafka runs is thread, process or HOST:PORT, not 'docker'."])


def test_a_wait_that_is_not_awaited_is_warned_about(run: object) -> None:
    result = run(  # type: ignore[operator]
        """
        async def test_it(kafka):
            kafka.group("g").until_stable(members=1)
        """,
    )
    result.stdout.fnmatch_lines(["*group g: Stable with 1 member was never awaited: put `await` before it.*"])


def test_on_another_broker_what_only_we_can_do_is_skipped(run: object) -> None:
    """The other broker is a coordinatord, which nobody controls."""
    with Kafka() as broker:
        result = run(  # type: ignore[operator]
            """
            import pytest
            pytestmark = pytest.mark.kafka(topics={"orders": 2})

            @pytest.mark.parametrize("again", range(2))
            def test_reads(kafka, again):
                kafka.put("orders", range(4))
                assert kafka.records("orders", decode=int) == [0, 1, 2, 3]
                assert kafka.group("g").state == "Dead"
                assert kafka.committed("g") == kafka.lag("g") == {}

            def test_faults(kafka):
                with kafka.fail("Heartbeat", "NOT_COORDINATOR"):
                    pass

            def test_verbs(kafka):
                kafka.advance(minutes=1)

            def test_restart(kafka):
                kafka.restart()

            async def test_in_a_coroutine(kafka):
                await kafka.group("g").until(lambda view: view.state == "Dead")
                kafka.group("g").rebalances

            @pytest.mark.kafka(settings={"group.max.size": 1})
            def test_settings(kafka):
                raise AssertionError("the broker has other settings")
            """,
            f"--kafka={broker.bootstrap_servers}",
            "-rs",
        )
    result.assert_outcomes(passed=2, skipped=5)
    result.stdout.fnmatch_lines(
        ["*Only coordinatord can do this, and the broker is another one: let the server's clock jump ahead."]
    )
    result.stdout.fnmatch_lines(
        ["*Only coordinatord can do this, and the broker is another one: run with group.max.size=1."]
    )


def test_a_topic_of_another_broker_that_is_not_ours_is_left_alone(run: object) -> None:
    with Kafka(topics={"orders": 1}) as broker:
        broker.put("orders", ["precious"])
        result = run(  # type: ignore[operator]
            """
            import pytest
            from coordinatord.testing import kafka
            kafka.DELETED_S = 0.1

            @pytest.mark.kafka(topics={"orders": 2})
            def test_it(kafka):
                pass
            """,
            f"--kafka={broker.bootstrap_servers}",
        )
        assert broker.records("orders") == [b"precious"]
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["There is a topic 'orders' already. A test makes its topics and deletes them:*"])


def test_a_run_without_the_fixtures_imports_none_of_it() -> None:
    program = "import pytest, sys; before = set(sys.modules); import coordinatord.testing.plugin; " \
        "print(sorted(set(sys.modules) - before))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['coordinatord', 'coordinatord.testing', 'coordinatord.testing.plugin']"


def test_an_asynchronous_test_that_no_plugin_runs_says_what_it_needs(run: object) -> None:
    result = run(  # type: ignore[operator]
        """
        async def test_it(kafka):
            kafka.group("g").state
        """,
        "-o",
        "asyncio_mode=strict",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['No plugin runs this asynchronous test: *asyncio_mode = "auto".'])


def test_a_fault_without_a_block_is_a_warning(run: object) -> None:
    result = run(  # type: ignore[operator]
        """
        def test_it(kafka):
            kafka.fail("Heartbeat", "NOT_COORDINATOR")
            with kafka.drop("Heartbeat", optional=True):
                pass
        """,
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*kafka.fail(*) without a block does nothing: write `with` before it.*"])
