"""SCRAM credentials, quotas and ACLs where several nodes lead: changed at any node they hold at all of them, whoever
dies or was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import scramp

from coordinatord.broker.log.names import METADATA_TOPIC, METADATA_TOPIC_ID
from coordinatord.server.postgresql import sharing
from coordinatord.server.postgresql.cluster_records import ClusterRecords, Unreadable
from coordinatord.server.postgresql.contract import Growth, PartitionKey, row_of
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import MARGIN
from coordinatord.server.postgresql.sharing import InTouch, SharedFiles
from coordinatord.server.postgresql.store import PostgresStore
from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.security.authorizer import Operation, PatternType, Permission, ResourceType
from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.api.describe_acls import DescribeAclsRequest
from kafka_wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafka_wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.sasl_authenticate import SaslAuthenticateRequest
from kafka_wire.api.sasl_handshake import SaslHandshakeRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import assign_offset, build_batch
from kafka_wire.records.cluster_metadata import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    encode_record,
)
from tests.broker.topics.world import batch
from tests.clients.raw import Line
from tests.daemon import HOST, free_port, running
from tests.server.postgresql.test_nodes import Node, commit, committed, nodes, settled, until
from tests.server.postgresql.test_several_leaders import Make, at, create, eventually, group_of, known_to, leading
from tests.server.postgresql.test_store import taken
from tests.server.postgresql.test_transfer import run

__all__ = ["nodes"]

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(600)]

SHA_256 = 1
SCRAM = "SCRAM-SHA-256"
PASSWORD = "word"
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
"""Nodes, and the tests, come as ANONYMOUS at the PLAINTEXT listener; clients log in at the other one."""

LATER = (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR)
"""The node of the first seat is not there, or the database was slow: tried again."""


def secured(make: Make, **more: str) -> Make:
    """Makes nodes with a second listener, at the next port, where clients log in."""

    def made(url: str, number: int, lease_ms: int = 10_000, **settings: str) -> Node:
        port = free_port(2)
        names = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{port + 1}"
        own = {"listeners": names, "sasl_enabled_mechanisms": SCRAM, "inter_broker_listener_name": "PLAINTEXT"}
        node = make(url, number, lease_ms=lease_ms, **own, **settings, **more)
        node.port = port
        return node

    return made


def upsertion(user: str, password: str = PASSWORD) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 4096)
    return ScramCredentialUpsertion(user, SHA_256, 4096, salt, salted)


async def asked(node: Node, request: Any, version: int, errors: Callable[[Any], list[int]]) -> list[int]:
    """Ask until the answer has none of the errors after which clients try again."""

    async def ask() -> list[int]:
        line = await at(node)
        try:
            return errors(await line.ask(request, version))
        finally:
            line.close()

    found: list[int] = await eventually(ask, lambda found: not set(found) & set(LATER), "an answer of the controller")
    return found


async def put_user(node: Node, *users: str) -> None:
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion(user) for user in users])
    answer = await asked(node, request, 0, lambda answer: [each.error_code for each in answer.results])
    assert answer == [0] * len(users)


async def remove_user(node: Node, user: str) -> None:
    """A try whose answer was lost may have removed it already."""
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(user, SHA_256)])
    [error] = await asked(node, request, 0, lambda answer: [each.error_code for each in answer.results])
    assert error in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND)


async def put_quota(node: Node, key: str, value: float, *, remove: bool = False) -> None:
    entry = EntryData([EntityData("client-id", "test")], [OpData(key, value, remove)])
    request = AlterClientQuotasRequest([entry])
    assert await asked(node, request, 1, lambda answer: [each.error_code for each in answer.entries]) == [0]


def acl(resource: ResourceType, name: str, operation: Operation, permission: Permission, user: str) -> AclCreation:
    return AclCreation(resource, name, PatternType.LITERAL, f"User:{user}", "*", operation, permission)


async def put_acls(node: Node, *creations: AclCreation) -> None:
    request = CreateAclsRequest(list(creations))
    answer = await asked(node, request, 3, lambda answer: [each.error_code for each in answer.results])
    assert answer == [0] * len(creations)


async def remove_acl(node: Node, each: AclCreation) -> None:
    wanted = DeleteAclsFilter(
        each.resource_type,
        each.resource_name,
        each.resource_pattern_type,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )
    request = DeleteAclsRequest([wanted])
    assert await asked(node, request, 3, lambda answer: [each.error_code for each in answer.filter_results]) == [0]


async def logged_in(node: Node, user: str, password: str = PASSWORD) -> Line | None:
    """A connection of a user; None if the password was refused. OSError without a node."""
    line = await Line.connect(HOST, node.port + 1, "test")
    try:
        assert (await line.ask(SaslHandshakeRequest(SCRAM), 1)).error_code == 0
        client = scramp.ScramClient([SCRAM], user, password)
        first = await line.ask(SaslAuthenticateRequest(client.get_client_first().encode()), 2)
        if first.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            return None
        client.set_server_first(bytes(first.auth_bytes).decode())
        last = await line.ask(SaslAuthenticateRequest(client.get_client_final().encode()), 2)
        if last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            return None
        client.set_server_final(bytes(last.auth_bytes).decode())
    except BaseException:
        line.close()
        raise
    return line


async def may_log_in(made: list[Node], user: str, *, may: bool = True) -> None:
    """All nodes let the user in, or do not any more; then it stays so."""
    for again in range(2):
        for node in made:

            async def ask(node: Node = node) -> bool:
                line = await logged_in(node, user)
                if line is not None:
                    line.close()
                return line is not None

            if again:
                assert await ask() == may
            else:
                await eventually(ask, lambda let_in: let_in == may, f"{user} at node {node.port}")


async def users(node: Node) -> set[str]:
    line = await at(node)
    answer = await line.ask(DescribeUserScramCredentialsRequest(None), 0)
    line.close()
    return {each.user for each in answer.results}


async def quotas(node: Node) -> dict[str, float]:
    line = await at(node)
    answer = await line.ask(DescribeClientQuotasRequest([ComponentData("client-id", 2, None)], False), 1)
    line.close()
    return {value.key: value.value for entry in answer.entries or () for value in entry.values}


async def acls(node: Node) -> int:
    line = await at(node)
    answer = await line.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)
    line.close()
    assert answer.error_code == 0
    return sum(len(each.acls) for each in answer.resources)


def test_a_credential_is_made_and_deleted_at_any_node_and_counts_at_all(nodes: Make, database: str) -> None:
    async def play() -> None:
        made = await leading(secured(nodes), database, 2)
        for number, node in enumerate(made):
            await put_user(node, f"user-{number}")
            await may_log_in(made, f"user-{number}")
        assert [await users(node) for node in made] == [{"user-0", "user-1"}] * 2
        assert await logged_in(made[1], "user-0", "another") is None
        for number, node in enumerate(made):  # each at the node that has not made it
            await remove_user(node, f"user-{1 - number}")
            await may_log_in(made, f"user-{1 - number}", may=False)
        # A node that starts has them before it answers.
        await put_user(made[0], "late")
        assert await asyncio.to_thread(made[1].stop) == 0
        await asyncio.to_thread(made[1].start)
        assert await users(made[1]) == {"late"}
        for node in made:
            assert await asyncio.to_thread(node.stop) == 0
            assert not node.events(level="error")

    asyncio.run(play())


def test_what_was_acknowledged_survives_the_node_that_said_so(nodes: Make, database: str) -> None:
    """SIGKILL with the acknowledgement: the other node has it, and the spare that takes the seat."""

    async def play() -> None:
        make = secured(nodes, **AUTHORIZER)
        made = await leading(make, database, 2, spares=1, lease_ms=6_000)
        owner, other, spare = made
        entry = EntryData([EntityData("client-id", "test")], [OpData("producer_byte_rate", 100.0, False)])
        grant = acl(ResourceType.TOPIC, "topic", Operation.READ, Permission.ALLOW, "alice")
        user = AlterUserScramCredentialsRequest(upsertions=[upsertion("alice")])
        told = await asyncio.gather(
            asked(owner, user, 0, lambda answer: [answer.results[0].error_code]),
            asked(owner, AlterClientQuotasRequest([entry]), 1, lambda answer: [answer.entries[0].error_code]),
            asked(owner, CreateAclsRequest([grant]), 3, lambda answer: [answer.results[0].error_code]),
        )
        owner.kill()
        assert told == [[0], [0], [0]]
        await may_log_in([other], "alice")
        await eventually(lambda: quotas(other), lambda found: found == {"producer_byte_rate": 100.0}, "the quota")
        await eventually(lambda: acls(other), lambda count: count == 1, "the ACL")
        # The one that is left asks whoever has the seat now.
        await put_user(other, "bob")
        assert spare.events("this node leads", seat=0)
        await may_log_in([other, spare], "bob")
        assert await users(spare) == {"alice", "bob"}
        assert (await quotas(spare), await acls(spare)) == ({"producer_byte_rate": 100.0}, 1)
        await remove_user(spare, "alice")
        await may_log_in([other, spare], "alice", may=False)

    asyncio.run(play())


@pytest.mark.parametrize("seat", [0, 1])
def test_a_node_that_was_stopped_changes_nothing_and_lets_nobody_in(nodes: Make, database: str, seat: int) -> None:
    """It wakes up after another one has its seat, with a change and a login of a deleted user in its sockets."""

    async def play() -> None:
        made = await leading(secured(nodes), database, 2, spares=1, lease_ms=6_000)
        stopped, other, spare = made[seat], made[1 - seat], made[2]
        await put_user(other, "alice", "old")
        await may_log_in(made[:2], "alice")
        plain, login = await at(stopped), await Line.connect(HOST, stopped.port + 1, "test")
        assert (await login.ask(SaslHandshakeRequest(SCRAM), 1)).error_code == 0
        client = scramp.ScramClient([SCRAM], "alice", PASSWORD)
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            await until(lambda: spare.events("this node leads", seat=seat), "the spare to lead")
            await remove_user(other, "alice")
            await may_log_in([other, spare], "alice", may=False)
            changes = [upsertion("late")], [ScramCredentialDeletion("old", SHA_256)]
            late = plain.ask(AlterUserScramCredentialsRequest(upsertions=changes[0], deletions=changes[1]), 0)
            proof = login.ask(SaslAuthenticateRequest(client.get_client_first().encode()), 2)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        process = stopped.process
        assert process is not None
        said = await asyncio.wait_for(asyncio.gather(late, proof, return_exceptions=True), 30)
        assert isinstance(said[0], ConnectionError), f"it answered a change: {said[0]}"
        if not isinstance(said[1], BaseException) and not said[1].error_code:  # it knows alice still; and then
            with contextlib.suppress(ConnectionError):
                client.set_server_first(bytes(said[1].auth_bytes).decode())
                answer = await login.ask(SaslAuthenticateRequest(client.get_client_final().encode()), 2)
                if not answer.error_code:
                    found = await asyncio.wait_for(committed(login), 30)
                    assert isinstance(found, ErrorCode), f"a deleted user was told {found}"
        await until(lambda: process.poll() is not None, "the node that has lost its seat to stop")
        assert process.returncode == 1
        stopped.process = None
        assert [await users(node) for node in (other, spare)] == [{"old"}] * 2

    asyncio.run(play())


def test_acls_deny_at_the_other_node(nodes: Make, database: str) -> None:
    """Made and removed at each node; a commit at the other one is allowed, denied, and refused to who has no grant."""

    async def play() -> None:
        made = await leading(secured(nodes, **AUTHORIZER), database, 2)
        await create(made[0], "topic", 1)
        await known_to(made, "topic")
        await put_user(made[1], "alice")
        await may_log_in(made, "alice")
        for number, node in enumerate(made):
            other, group = made[1 - number], group_of(1 - number, 2)
            line = await logged_in(other, "alice")
            assert line is not None

            async def tried(line: Line = line, group: str = group) -> ErrorCode:
                return await settled(lambda: commit(line, 7, group))  # type: ignore[no-any-return]

            assert await tried() == ErrorCode.GROUP_AUTHORIZATION_FAILED
            grants = [
                acl(ResourceType.GROUP, group, Operation.READ, Permission.ALLOW, "alice"),
                acl(ResourceType.TOPIC, "topic", Operation.READ, Permission.ALLOW, "alice"),
            ]
            await put_acls(node, *grants)
            await eventually(tried, lambda error: error == ErrorCode.NONE, "the grant")
            deny = acl(ResourceType.GROUP, group, Operation.READ, Permission.DENY, "alice")
            await put_acls(node, deny)
            await eventually(tried, lambda error: error == ErrorCode.GROUP_AUTHORIZATION_FAILED, "the denial")
            await remove_acl(node, deny)
            await eventually(tried, lambda error: error == ErrorCode.NONE, "the denial to go")
            for each in grants:
                await remove_acl(node, each)
            await eventually(tried, lambda error: error == ErrorCode.GROUP_AUTHORIZATION_FAILED, "the grants to go")
            line.close()
        # Who may not change ACLs may not do so by way of the other node, which would ask as ANONYMOUS.
        for node in made:
            line = await logged_in(node, "alice")
            assert line is not None
            own = acl(ResourceType.TOPIC, "topic", Operation.ALL, Permission.ALLOW, "alice")
            answer = await line.ask(CreateAclsRequest([own]), 3)
            assert [each.error_code for each in answer.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            line.close()
        for node in made:  # each hears of the last removals when it asks the database again

            async def left(node: Node = node) -> int:
                return await acls(node)

            await eventually(left, lambda count: count == 0, "the last removals")

    asyncio.run(play())


def test_quotas_throttle_at_the_other_node(nodes: Make, database: str) -> None:
    async def play() -> None:
        made = await leading(nodes, database, 2)
        await create(made[0], "topic", 2)
        await known_to(made, "topic")
        partition = {share_of("topic", number, 2): number for number in range(2)}
        for number, node in enumerate(made):
            other = made[1 - number]
            records = batch(b"x" * 5_000)
            data = TopicProduceData("topic", partition_data=[PartitionProduceData(partition[1 - number], records)])

            async def throttled(other: Node = other, data: Any = data) -> int:
                line = await at(other)
                try:
                    answer = await line.ask(ProduceRequest(None, 1, 10_000, [data]), 11)
                finally:
                    line.close()
                assert answer.responses[0].partition_responses[0].error_code == 0
                return int(answer.throttle_time_ms)

            assert await throttled() == 0
            await put_quota(node, "producer_byte_rate", 1_000.0)
            await eventually(throttled, lambda found: found > 0, "the quota")
            await put_quota(node, "producer_byte_rate", 0.0, remove=True)
            await eventually(throttled, lambda found: found == 0, "the quota to go")

    asyncio.run(play())


def test_a_directory_with_such_records_is_loaded_for_several_leaders(
    nodes: Make, tmp_path: Path, database: str
) -> None:
    async def fill(node: Any) -> None:
        await put_user(node, "alice")
        await put_quota(node, "producer_byte_rate", 100.0)

    with running(tmp_path / "one", {"offsets.topic.num.partitions": "4"}) as node:
        asyncio.run(fill(node))
    run("store", "load", "--leaders", "2", node.data_dir, database)

    async def play() -> None:
        made = await leading(secured(nodes), database, 2)
        for each in made:
            assert await users(each) == {"alice"}
            assert await quotas(each) == {"producer_byte_rate": 100.0}
        await may_log_in(made, "alice")

    asyncio.run(play())
    run("store", "copy", database, tmp_path / "copy")
    with running(tmp_path / "back", {"log.dirs": str(tmp_path / "copy")}) as again:
        assert asyncio.run(users(again)) == {"alice"}  # type: ignore[arg-type]


class Owner:
    """The node of the first seat, as far as it appends records."""

    def __init__(self, url: str) -> None:
        self.lease = taken(url, 1, seats=2)
        self.store = PostgresStore(url, self.lease.term, self.lease.seat, is_alone=False)
        self.key = PartitionKey(METADATA_TOPIC_ID, 0)
        self.end = 0

    def append(self, *records: Any, segment: int = 0) -> None:
        values = [(None, encode_record(each, 0)) for each in records]
        made = bytearray(build_batch(values, 0))
        assign_offset(made, self.end, 0)
        end = self.end + len(records)
        self.store.append([Growth(self.key, METADATA_TOPIC, self.end, end)], [row_of(self.key, segment, bytes(made))])
        self.end = end

    def close(self) -> None:
        self.lease.close(release=True)
        self.store.close()


def put(user: str) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(user, SHA_256, b"salt", b"stored", b"server", 4096)


def test_a_follower_reads_on_and_begins_anew_after_a_snapshot(database: str) -> None:
    owner = Owner(database)
    follower, late = ClusterRecords(), ClusterRecords()
    connection = Link(database).open()

    def read(records: ClusterRecords) -> list[tuple[int, int]]:
        records.fetch(connection, owner.end)
        return [(each.base_offset, each.next_offset) for each in records.read(0)]

    owner.append(put("alice"), put("bob"))
    owner.append(RemoveUserScramCredentialRecord("bob", SHA_256))
    assert read(follower) == [(0, 2), (2, 3)]
    assert read(follower) == []
    owner.append(put("carol"), segment=3)
    assert read(follower) == [(3, 4)]
    owner.append(put("alice"), put("carol"), segment=4)
    owner.store.remove(owner.key, [0, 3])
    assert read(follower) == [(4, 6)], "it has all before that"
    assert read(late) == [(4, 6)], "the log begins there"
    behind = ClusterRecords()
    behind.metadata_end = 2
    assert read(behind) == [(4, 6)], "what it has not read is gone: the reader begins anew"
    with pytest.raises(Unreadable, match="end at 5 in the database, and this node has read 6"):
        follower.fetch(connection, 5)
    connection.close()
    owner.close()


def test_a_row_that_is_damaged_ends_the_node(database: str) -> None:
    owner = Owner(database)
    owner.append(put("alice"))
    connection = Link(database).open()
    connection.execute("UPDATE coordinatord_batch SET batch = set_byte(batch, 70, 99 # get_byte(batch, 70))")
    with pytest.raises(Unreadable, match="__cluster_metadata-0"):
        ClusterRecords().fetch(connection, owner.end)
    connection.close()
    owner.close()


def test_who_hears_nothing_answers_nothing(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease may be renewed all the same, by a connection of its own."""
    owner, lease = Owner(database), taken(database, 2, seats=2)
    store = PostgresStore(database, lease.term, lease.seat, is_alone=False)
    now_s = [1_000.0]
    monkeypatch.setattr(sharing, "now_s", lambda: now_s[0])
    shared = SharedFiles(database, store, str(tmp_path), 2)
    standing = InTouch(lease, shared)
    assert lease.holds
    assert standing.holds
    now_s[0] += lease.lease_ms / 1000 * (1 - MARGIN)
    assert lease.holds
    assert not standing.holds
    shared.look()
    assert standing.holds
    lease.lost = True
    assert not standing.holds
    shared.close()
    store.close()
    lease.lost = False
    lease.close(release=True)
    owner.close()
