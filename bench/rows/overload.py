"""More work than a server can do: who waits, and what it costs in memory."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from bench import frames, groups
from bench.generator import STALLED_S, Flow, Poller
from bench.groups import check_heartbeat, heartbeats
from bench.registry import KAFKA, OURS_ALWAYS, Arena, Column, Sample, at_most, row
from bench.rows.steady import commit_flows
from bench.servers import Server

MIB = 1 << 20
BEATING = 8  # connections with one heartbeat under way at most
INTERVAL_S = 0.01  # between a connection's heartbeats: far less than the commits
IN_FLIGHT = 32
WARM_S = {"kafka": 4.0}
WARM_ELSE_S = 0.3


@row(
    "overload-latency",
    "p99 of heartbeats while 32 connections commit, 32 in flight each",
    "ms",
    columns=[OURS_ALWAYS, KAFKA],
    targets=[at_most(50)],
)
def overload_latency(arena: Arena, column: Column, seconds: float) -> Sample:
    """Commits of 4 partitions as fast as they are taken, with fdatasync on our side; heartbeats on connections of
    their own, a hundred a second each.
    """
    server = arena.server(column)
    if "overload" not in server.fixtures:
        members = groups.standing(server)[:BEATING]
        beating = [Flow(server.line(), heartbeats([member]), check_heartbeat) for member in members]
        server.fixtures["overload"] = (commit_flows(server), beating)
        _both(server, WARM_S.get(server.kind, WARM_ELSE_S))
    latencies, per_s, server_busy = _both(server, seconds)
    ordered = sorted(latencies)
    return Sample(
        ordered[int(len(ordered) * 0.99)] * 1000,
        [(each, 1) for each in latencies],
        also={"commits per s": per_s, "busy": server_busy, "heartbeats": float(len(latencies))},
    )


def _both(server: Server, seconds: float) -> tuple[list[float], float, float]:
    """(latencies of heartbeats, commits a second, the server's share of a core)."""
    committing: Sequence[Flow]
    beating: Sequence[Flow]
    committing, beating = server.fixtures["overload"]  # type: ignore[misc]
    poller = Poller(flow.sock for flow in (*committing, *beating))
    by_fd = {flow.sock.fileno(): flow for flow in (*committing, *beating)}
    beats = {flow.sock.fileno() for flow in beating}
    latencies: list[tuple[float, int]] = []
    commits: list[tuple[float, int]] = []
    began_s = now_s = time.perf_counter()
    cpu_began_s = server.cpu_s()
    until_s = began_s + seconds
    for flow in committing:
        flow.begin(IN_FLIGHT)
        flow.send(flow.in_flight, now_s)
    due = [(began_s + INTERVAL_S * number / len(beating), flow) for number, flow in enumerate(beating)]
    for flow in beating:
        flow.begin(1)
    busy_flows = len(committing)
    while busy_flows or any(flow.waiting for flow in beating):
        while due and due[0][0] <= now_s < until_s:
            _, flow = due.pop(0)
            flow.send(1, time.perf_counter())
        events = poller.wait(max(0.0, due[0][0] - now_s) if due and now_s < until_s else STALLED_S)
        now_s = time.perf_counter()
        for fd, _ in events:
            flow = by_fd[fd]
            if fd in beats:
                if flow.receive(now_s, latencies):
                    due.append((now_s + INTERVAL_S, flow))
                continue
            whole = flow.receive(now_s, commits)
            if whole and now_s < until_s:
                flow.send(whole, now_s)
            elif whole and not flow.waiting:
                busy_flows -= 1
    poller.close()
    took_s = time.perf_counter() - began_s
    count = sum(each for _, each in commits)
    return [each for each, _ in latencies], count / took_s, (server.cpu_s() - cpu_began_s) / took_s


# Memory

FLOODING = 64
FLOOD_S = 6.0


@row(
    "overload-memory",
    "peak resident while 64 clients send and never read",
    "MiB",
    columns=[OURS_ALWAYS],
    targets=[at_most(128)],
    rounds=1,
)
def overload_memory(arena: Arena, column: Column, seconds: float) -> Sample:
    """Fetches of offsets, whose answers are larger than the requests, and commits, for as long as the server takes any;
    a heartbeat on a connection of its own must be answered meanwhile.
    """
    with arena.fresh(column) as server:
        members = groups.standing(server)
        before = server.resident_bytes()
        line = server.line()
        beat = heartbeats(members[:1])[0]
        wire = [
            frames.frame(request)
            for member in members
            for request in (
                frames.commit(member.group, member.generation, member.member_id, 1),
                frames.offset_fetch(member.group),
                frames.offset_fetch(member.group),
            )
        ]
        blob = memoryview(b"".join(wire))
        flood = [server.line() for _ in range(FLOODING)]
        sent = dict.fromkeys((each.sock for each in flood), 0)
        for sock in sent:
            sock.setblocking(False)
        poller = select.epoll()
        by_fd = {sock.fileno(): sock for sock in sent}
        for fd in by_fd:
            poller.register(fd, select.EPOLLOUT)
        until_s = next_s = time.perf_counter() + FLOOD_S
        next_s -= FLOOD_S
        slowest_s, halfway = 0.0, 0
        while (now_s := time.perf_counter()) < until_s:
            for fd, _ in poller.poll(0.05):
                sock = by_fd[fd]
                at = sent[sock] % len(blob)
                sent[sock] += sock.send(blob[at : at + (1 << 16)])
            if now_s >= next_s:
                next_s = now_s + 0.1
                check_heartbeat(beat, line.ask(beat))
                slowest_s = max(slowest_s, time.perf_counter() - now_s)
            if not halfway and now_s > until_s - FLOOD_S / 2:
                halfway = server.resident_bytes()
        poller.close()
        peak = server.peak_bytes()
        for each in flood:
            each.close()
        return Sample(
            peak / MIB,
            also={
                "before": before / MIB,
                "halfway": halfway / MIB,
                "MiB taken": sum(sent.values()) / MIB,
                "slowest heartbeat ms": slowest_s * 1000,
            },
        )
