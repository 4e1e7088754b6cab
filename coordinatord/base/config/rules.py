"""Rules for combinations of settings: Kafka's rules where Kafka has them, and combinations that would otherwise fail
later with a worse message.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.base.config.address import WILDCARDS
from coordinatord.base.config.settings import Settings
from coordinatord.base.config.share import AT_MOST as SHARE_AT_MOST
from coordinatord.base.config.table import TABLE

AT_MOST = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    *SHARE_AT_MOST,
)
"""Pairs of settings: the first may be at most the second."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

LOCAL = ("127.0.0.1", "::1", "localhost")
"""Hosts that only this machine reaches."""

LESS_THAN = (
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
)


def between_nodes(settings: Settings) -> str:
    """Return the name of the listener at which nodes send each other requests."""
    return (settings.inter_broker_listener_name or "").upper() or next((each.name for each in settings.endpoints), "")


def broken(settings: Settings) -> list[str]:
    """Return one sentence for each rule that the settings break."""
    return [
        *_order(settings),
        *_retention(settings),
        *_listeners(settings),
        *_workers(settings),
        *_test_control(settings),
        *_storage(settings),
    ]


def _order(settings: Settings) -> Iterator[str]:
    for smaller, larger in AT_MOST:
        low, high = (getattr(settings, TABLE[name].attribute) for name in (smaller, larger))
        if low > high:
            yield f"{smaller} ({low}) must be at most {larger} ({high}): lower the one or raise the other."
    for smaller, larger in LESS_THAN:
        low, high = (getattr(settings, TABLE[name].attribute) for name in (smaller, larger))
        if low >= high:
            yield f"{smaller} ({low}) must be less than {larger} ({high}): lower the one or raise the other."


def _retention(settings: Settings) -> Iterator[str]:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if getattr(settings, TABLE[name].attribute) == 0:
            yield f"{name} must be -1 (for ever) or at least 1, not 0."


def _listeners(settings: Settings) -> Iterator[str]:
    endpoints = settings.endpoints
    if not endpoints:
        yield "listeners leaves nothing to listen on: give at least one that is not in controller.listener.names."
    protocols = dict(settings.listener_security_protocol_map)
    for endpoint in endpoints:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            yield (
                f"The listener {endpoint.name} has no security protocol: "
                f"add {endpoint.name}:PLAINTEXT to listener.security.protocol.map."
            )
        elif protocol not in PROTOCOLS:
            yield (
                f"The listener {endpoint.name} asks for {protocol}: "
                "listener.security.protocol.map may hold PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
            )
        elif protocol != "PLAINTEXT":
            from coordinatord.base.config import security_rules  # a PLAINTEXT listener needs none of them

            yield from security_rules.broken(settings, endpoint.name, protocol)
    names = {listener.name for listener in settings.listeners}
    for told in settings.advertised_listeners:
        if told.name not in names:
            yield f"advertised.listeners names {told.name}, which is not in listeners: use the same names in both."
        elif told.host in WILDCARDS:
            yield (
                f"advertised.listeners must give a host that clients can reach, not {str(told)!r}: "
                "name the machine or its address."
            )


def _workers(settings: Settings) -> Iterator[str]:
    """Check the ports of workers. Worker K uses every fixed port plus K: these ports must exist, and no other listener
    may use them.
    """
    count = settings.workers
    if count == 1:
        return
    taken: list[tuple[str, str, int]] = []
    for name, listeners in (("listeners", settings.listeners), ("admin.listeners", settings.admin_listeners)):
        for listener in listeners:
            if listener.port + count - 1 > 65_535:
                yield f"{name}: {count} workers from port {listener.port} on need ports above 65535; give a lower one."
            for other_name, host, port in taken:
                shares_address = host == listener.host or not {host, listener.host}.isdisjoint(WILDCARDS)
                if listener.port and port and shares_address and abs(listener.port - port) < count:
                    yield (
                        f"{count} workers need {count} ports from {port} on ({other_name}) and from {listener.port} on "
                        f"({name}): move one of them so that they do not overlap."
                    )
            taken.append((name, listener.host, listener.port))
    for told in settings.advertised_listeners:
        if told.port + count - 1 > 65_535:
            yield (
                f"advertised.listeners: {count} workers from port {told.port} on need ports above 65535; "
                "give a lower one."
            )
    if settings.node_id + count - 1 > 2**31 - 1:
        yield f"node.id: {count} workers need ids up to {settings.node_id + count - 1}, which no int32 holds."


def _test_control(settings: Settings) -> Iterator[str]:
    """Check that the verbs and faults of tests cannot be exposed by accident."""
    if not settings.test_control_enable:
        return
    if settings.admin is None:
        yield "test.control.enable=true needs admin.listeners, where /test/ is served: give --admin 127.0.0.1:0."
    protocols = dict(settings.listener_security_protocol_map)
    is_authenticated = any(protocols.get(each.name) != "PLAINTEXT" for each in settings.endpoints)
    is_local = settings.admin is None or settings.admin.host in LOCAL
    if not settings.test_control_token and (is_authenticated or not is_local):
        yield (
            "test.control.enable=true lets whoever reaches admin.listeners do what the listeners ask a password for, "
            "or other machines do what they like: give test.control.token, too."
        )


def _storage(settings: Settings) -> Iterator[str]:
    if settings.storage == "directory":
        if settings.storage_leaders > 1:
            yield "storage.leaders is for storage=postgresql://: with a directory, several processes are --workers."
        return
    if settings.workers > 1:
        yield "storage=postgresql:// works with one process on each machine: give --workers 1."
    if settings.log_flush != "always":
        yield "storage=postgresql:// answers when a commit is durable: leave log.flush=always."
    if settings.storage_leaders > 1:
        yield from _several_leaders(settings)


def _several_leaders(settings: Settings) -> Iterator[str]:
    """Check settings of several leaders: nodes do not authenticate to each other."""
    name = between_nodes(settings)
    if name not in {each.name for each in settings.endpoints}:
        yield f"inter.broker.listener.name is {name}, which is not in listeners: give the name of one of them."
    elif dict(settings.listener_security_protocol_map).get(name) != "PLAINTEXT":
        yield (
            "storage.leaders above 1 needs a listener with PLAINTEXT for requests between the nodes: name it in "
            "inter.broker.listener.name, and make it reachable for the nodes alone."
        )
    if settings.test_control_enable:
        yield "storage.leaders above 1 works without test.control.enable: leave it at 1 where tests control a daemon."
