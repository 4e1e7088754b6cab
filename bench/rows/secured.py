"""Heartbeats over TLS, by clients that have logged in: what encryption costs on top of the steady rows."""

from __future__ import annotations

import itertools
import ssl
import time
from pathlib import Path

from bench import frames, groups
from bench.generator import HOST, Line, WrongAnswer
from bench.registry import KAFKA, OURS, Arena, Column, Sample, at_most, row
from bench.servers import Server
from coordinatord.base.config import Entry, load
from coordinatord.transport.security.material import material_of
from kafka_wire.api.sasl_authenticate import SaslAuthenticateRequest
from kafka_wire.api.sasl_handshake import SaslHandshakeRequest
from tests import daemon

IN_FLIGHT = 8
CONNECTIONS = 32
WARM_S = {"kafka": 10.0}
WARM_ELSE_S = 0.3
SECURED = (("connections.max.idle.ms", "600001"),)
"""Makes a server of its own; any setting without an effect would do."""
LOGIN = b"\0alice\0secret"


class TlsLine(Line):
    """A connection whose client has logged in."""

    def __init__(self, port: int, ca: Path) -> None:
        super().__init__(port)
        context = ssl.create_default_context(cafile=str(ca))
        self.sock = context.wrap_socket(self.sock, server_hostname="localhost")
        groups.require(self.ask(SaslHandshakeRequest("PLAIN"), 1).error_code, "SaslHandshake")
        groups.require(self.ask(SaslAuthenticateRequest(LOGIN), 2).error_code, "SaslAuthenticate")


def secured(server: Server, directory: Path) -> list[TlsLine]:
    """Restart a server with a SASL_SSL listener beside its own; connections to it."""
    port = daemon.free_port()
    made = {
        "listeners": f"SASL_SSL://{HOST}:{port}",
        "test.users": "alice:secret",
        "test.security.dir": str(directory / f"security-{server.kind}"),
    }
    material = material_of(load(flags=[Entry(name, value, "bench") for name, value in made.items()]).settings)
    assert material is not None
    settings = {"sasl.enabled.mechanisms": "PLAIN"}
    if server.kind == "ours":
        settings |= {**made, "listeners": f"PLAINTEXT://{HOST}:{server.port},SASL_SSL://{HOST}:{port}"}
    else:
        from coordinatord.transport.security.material import made_for

        made_for(material.settings)
        before = _properties(server)
        for name in ("listeners", "advertised.listeners"):
            settings[name] = f"{before[name]},SASL_SSL://{HOST}:{port}"
        settings["listener.security.protocol.map"] = before["listener.security.protocol.map"] + ",SASL_SSL:SASL_SSL"
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(material.server),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
            ),
        }
    server.again(settings)
    return [TlsLine(port, material.ca) for _ in range(CONNECTIONS)]


def _properties(server: Server) -> dict[str, str]:
    text = server.home.properties_file.read_text()  # type: ignore[attr-defined]
    return dict(line.split("=", 1) for line in text.splitlines())


class Beats:
    """The connections of a server, each with eight heartbeats to send in one write."""

    def __init__(self, server: Server, lines: list[TlsLine]) -> None:
        hands = groups.dealt(groups.standing(server), len(lines))
        self.cycles = []
        for line, hand in zip(lines, hands, strict=True):
            requests = list(itertools.islice(itertools.cycle(groups.heartbeats(hand)), IN_FLIGHT))
            frame = b"".join(frames.frame(each) for each in requests)
            line.sock.sendall(frame)
            answers = [line.take() for _ in requests]
            for request, answer in zip(requests, answers, strict=True):
                groups.check_heartbeat(request, frames.response(request, answer))
            self.cycles.append((line, frame, b"".join(answers)))

    def drive(self, seconds: float) -> tuple[int, float]:
        """(requests, seconds): all connections have theirs under way; then all are answered."""
        done = 0
        began_s = now_s = time.perf_counter()
        while now_s - began_s < seconds:
            for line, frame, _ in self.cycles:
                line.sock.sendall(frame)
            for line, _, expected in self.cycles:
                found = b""
                while len(found) < len(expected):
                    more = line.sock.recv(len(expected) - len(found))
                    if not more:
                        raise WrongAnswer("the connection was closed")
                    found += more
                if found != expected:
                    raise WrongAnswer("a heartbeat was answered otherwise than before")
            done += len(self.cycles) * IN_FLIGHT
            now_s = time.perf_counter()
        return done, now_s - began_s


@row(
    "heartbeat-sasl-ssl",
    "heartbeat on SASL_SSL, 8 in flight",
    "µs",
    columns=[
        Column(OURS.key, OURS.kind, OURS.label, SECURED),
        Column(KAFKA.key, KAFKA.kind, KAFKA.label, SECURED),
    ],
    targets=[at_most(1 / 3, of="kafka")],
)
def heartbeat(arena: Arena, column: Column, seconds: float) -> Sample:
    server = arena.server(column)
    if "secured beats" not in server.fixtures:
        server.fixtures["secured beats"] = beats = Beats(server, secured(server, arena.directory))
        beats.drive(min(WARM_S.get(server.kind, WARM_ELSE_S), 7 * seconds))
    ready: Beats = server.fixtures["secured beats"]  # type: ignore[assignment]
    before_s = server.cpu_s()
    done, wall_s = ready.drive(seconds)
    used_s = server.cpu_s() - before_s
    return Sample(used_s / done * 1e6, per_s=done / wall_s, server_busy=used_s / wall_s)
