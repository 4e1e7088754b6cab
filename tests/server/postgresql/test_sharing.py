"""What several leading nodes share: one changes it at a time, and nobody overwrites what another one has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinatord.broker.log import checkpoint
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.topics import producer_ids
from coordinatord.broker.topics.catalogue_file import Content, Entry, read, write
from coordinatord.broker.topics.producer_ids import ProducerIds
from coordinatord.server.postgresql import sharing
from coordinatord.server.postgresql.contract import Away
from coordinatord.server.postgresql.copy_disk import CopyDisk
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import Lease
from coordinatord.server.postgresql.sharing import SharedFiles
from coordinatord.server.postgresql.store import SHARE_FILE, PostgresStore, of_all, of_seat
from tests.server.postgresql.lossy import LossyLink
from tests.server.postgresql.model import LOST_AFTER
from tests.server.postgresql.server import Server
from tests.server.postgresql.test_store import taken

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(180)]

Names = set[str]


class Sharer:
    """A leading node, as far as it shares files."""

    def __init__(self, url: str, path: Path, node_id: int, seats: int) -> None:
        path.mkdir()
        self.lease: Lease = taken(url, node_id, seats=seats)
        self.store = PostgresStore(url, self.lease.term, self.lease.seat, is_alone=False)
        self.shared = SharedFiles(url, self.store, str(path), seats)
        self.disk = CopyDisk(self.store, str(path))
        self.disk.sharing = self.shared
        self.path = str(path)
        self.ids = ProducerIds(self.disk, self.path, self.shared.lock)

    @property
    def content(self) -> Content:
        return read(self.disk, f"{self.path}/topics.json")

    def topics(self) -> Names:
        with self.shared.lock():
            return set(self.content.topics)

    def add(self, name: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """As the catalogue adds a topic: what it decides it decides under the lock."""
        with self.shared.lock():
            found = self.content
            meanwhile()
            entry = Entry(name.encode().ljust(16, b"-"), 1, {})
            changed = Content({**found.topics, name: entry}, {}, found.change + 1)
            write(self.disk, f"{self.path}/topics.json", changed)
            self.shared.changed(changed.change)

    def close(self) -> None:
        self.shared.close()
        self.lease.close(release=True)
        self.store.close()


@pytest.fixture
def sharers(database: str, tmp_path: Path) -> Iterator[list[Sharer]]:
    made = [Sharer(database, tmp_path / f"{number}", number, 2) for number in (1, 2)]
    yield made
    for each in made:
        each.close()


def test_a_seat_has_its_own_files_and_a_copy_has_all(tmp_path: Path) -> None:
    def text(**offsets: int) -> bytes:
        return checkpoint.offsets_text({(topic, 0): offset for topic, offset in offsets.items()}).encode()

    found = {
        "topics.json": b"{}",
        "epochs/a-0": b"0\n0\n",
        "seats/0/followed": b"7",
        "seats/0/log-start-offset-checkpoint": text(a=1, b=2),
        "seats/1/log-start-offset-checkpoint": text(c=3),
        "seats/1/cleaner-offset-checkpoint": text(c=4),
        "seats/10/cleaner-offset-checkpoint": text(d=5),
    }
    common = {"topics.json": b"{}", "epochs/a-0": b"0\n0\n"}
    assert of_seat(found, "seats/0/") == common | {"log-start-offset-checkpoint": text(a=1, b=2)}
    assert of_seat(found, "seats/1/") == common | {
        "log-start-offset-checkpoint": text(c=3),
        "cleaner-offset-checkpoint": text(c=4),
    }
    assert of_all(found) == common | {
        "log-start-offset-checkpoint": text(a=1, b=2, c=3),
        "cleaner-offset-checkpoint": text(c=4, d=5),
    }
    one = common | {"cleaner-offset-checkpoint": text(e=6)}
    assert of_all(one) == one, "with one seat they are as they are"


def test_each_adds_to_what_the_other_has_added(sharers: list[Sharer]) -> None:
    for number in range(6):
        sharers[number % 2].add(f"topic-{number}")
    assert [each.topics() for each in sharers] == [{f"topic-{number}" for number in range(6)}] * 2
    assert [each.shared.change for each in sharers] == [6, 6]
    with Link(sharers_url(sharers[0])).open() as connection:
        [(version,)] = connection.execute("SELECT version FROM coordinatord_file WHERE name = 'topics.json'").fetchall()
    assert version == 6


def sharers_url(sharer: Sharer) -> str:
    address = sharer.shared._looking._address
    return f"postgresql://{address['user']}@{address['host']}:{address['port']}/{address['dbname']}"


def test_blocks_of_producer_ids_are_nobodys_twice(sharers: list[Sharer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "BLOCK_SIZE", 3)
    monkeypatch.setattr(sharing, "LOCK_MS", 60_000)
    given: list[int] = []

    def take(sharer: Sharer) -> None:
        given.extend(sharer.ids.next() for _ in range(20))

    threads = [threading.Thread(target=take, args=(each,)) for each in sharers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(given) == len(set(given)) == 40


def test_while_one_holds_the_lock_the_other_gives_up_soon(sharers: list[Sharer]) -> None:
    one, other = sharers
    with one.shared.lock(), pytest.raises(OSError, match="not to be had"), other.shared.lock():
        raise AssertionError("two hold the lock")
    other.add("later")
    assert one.topics() == {"later"}


def test_a_change_by_a_node_that_has_lost_the_lock_is_refused(server: Server, sharers: list[Sharer]) -> None:
    """As one that was stopped for so long that the server has ended its transaction."""
    one, other = sharers
    one.add("first")
    database = one.shared._locking._address["dbname"]

    def lose() -> None:
        server.ask(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE state = 'idle in transaction' AND datname = current_database()",
        )
        other.add("second")

    with pytest.raises(Away, match="another node has changed"):
        one.add("third", lose)
    assert one.topics() == {"first", "second"}, "it has what the other one has made"
    one.add("third")
    assert other.topics() == {"first", "second", "third"}


def test_without_versions_that_change_would_be_lost(server: Server, sharers: list[Sharer]) -> None:
    """The test above notices it."""
    database = sharers[0].shared._locking._address["dbname"]
    server.ask(
        database,
        "CREATE OR REPLACE FUNCTION coordinatord_share_file(term bigint, file_name text, bytes bytea, version_before "
        "bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO coordinatord_file VALUES (file_name, bytes, 1) "
        "ON CONFLICT (name) DO UPDATE SET content = bytes, version = coordinatord_file.version + 1; END $$",
    )
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_a_change_by_a_node_that_has_lost_the_lock_is_refused(server, sharers)


def test_a_change_whose_answer_is_lost_is_found_with_the_next_look(sharers: list[Sharer]) -> None:
    one, other = sharers
    one.add("first")
    link = LossyLink(sharers_url(one), SHARE_FILE)
    link.faults.append(LOST_AFTER)
    one.store._aside.close()
    one.store._aside = link
    with pytest.raises(OSError, match="another node has changed"):  # the second attempt finds the first one's
        one.add("second")
    assert set(one.content.topics) == {"first"}, "who asked for it was told that it failed"
    assert other.topics() == {"first", "second"}
    assert one.shared.look().files == {"topics.json"}
    assert set(one.content.topics) == {"first", "second"}
    one.add("third")
    assert other.topics() == {"first", "second", "third"}


def test_deletions_are_followed_by_all_when_each_seat_has(sharers: list[Sharer], tmp_path: Path) -> None:
    one, other = sharers
    one.shared.follow(one.lease.seat, 7)
    assert one.shared.followed_by_all == 0
    other.shared.follow(other.lease.seat, 5)
    deadline_s = time.monotonic() + 60
    while one.shared.followed_by_all != 5 or other.shared.followed_by_all != 5:
        assert time.monotonic() < deadline_s
        for each in sharers:
            each.shared.look()
    # The next holder of a seat goes on from there.
    other.close()
    following = Sharer(sharers_url(one), tmp_path / "following", 3, 2)
    assert following.lease.seat == other.lease.seat
    following.shared.look()
    assert following.shared.followed_by_all == 5
    following.close()
    sharers.remove(other)


def test_a_look_says_who_has_which_seat(sharers: list[Sharer]) -> None:
    from coordinatord.server.postgresql.registry import Registration

    for each in sharers:
        registration = Registration(f"node {each.lease.seat + 1}", each.lease.seat + 1, 60_000, None, {"L": ("h", 1)})
        registration.keep(each.shared._looking.open())
    found = sharing.holders(sharers[0].shared.look().nodes)
    assert {seat: holder.node_id for seat, holder in found.items()} == {0: 1, 1: 2}
    assert found[1].addresses == {"L": ("h", 1)}


def test_a_node_whose_database_is_away_cannot_have_the_lock(victim: Server, tmp_path: Path) -> None:
    sharer = Sharer(victim.make_database("sharing"), tmp_path / "one", 1, 2)
    sharer.add("first")
    victim.kill()
    with pytest.raises(Away):
        sharer.add("second")
    victim.start()
    sharer.add("second")
    assert sharer.topics() == {"first", "second"}
    sharer.close()
    assert not [name for name in OsDisk().listdir(sharer.path) if name.endswith(".fetched")]
