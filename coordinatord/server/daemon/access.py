"""Assembly of authorization and quotas: the authorizer, the quotas, their records in the metadata log, and the wrappers
of the handlers.

Without `authorizer.class.name` there are no rules, and without a quota nothing is measured: then the handlers and their
shortcuts are used unchanged, and hardly a module is imported. The first quota replaces the routes, whenever it is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from coordinatord.base.config import Settings
from coordinatord.broker.metadata.forwarding import Forward, forward_of
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.broker.topics import Topics
from coordinatord.transport.net.descriptors import FEWEST, RESERVED, limit_of_open_files
from coordinatord.transport.net.lazy_handlers import Handlers, lazy_handlers
from coordinatord.transport.net.routes import ShortcutMaker
from kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from coordinatord.server.access.quotas import ClientQuotas, Quotas
    from coordinatord.transport.cluster.nodes import Nodes
    from coordinatord.transport.cluster.peers import Peers, SeatPeers
    from coordinatord.transport.net.connections import Connections
    from coordinatord.transport.net.router import Router
    from coordinatord.transport.security.authorizer import Authorizer

ACL_APIS = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
ACL_RECORDS = (18, 19)
"""Types of the records that add and remove an ACL."""
QUOTA_APIS = (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS)
QUOTA_RECORDS = (14,)

UNLIMITED = 2**31 - 1


class Admission:
    """Authorization and quotas of one daemon. `alarm(deadline_ms, callback)` is Timers.alarm."""

    def __init__(
        self,
        settings: Settings,
        metadata: MetadataLog,
        connections: Connections,
        now_ms: Callable[[], int],
        alarm: Callable[[int, Callable[[], object]], Any],
        nodes: Nodes,
        peers: Peers | SeatPeers | None,
    ) -> None:
        self._nodes = nodes
        self._peers = peers
        self._settings = settings
        self._metadata = metadata
        self._connections = connections
        self._now_ms = now_ms
        self._alarm = alarm
        self._handlers: Mapping[int, Any] = {}
        self._shortcuts: Mapping[int, ShortcutMaker] = {}
        self._topics: Topics | None = None
        self._router: Router | None = None
        self._always: Mapping[int, Any] = {}
        #: keys of the quotas that the current routes were made for
        self._keys: set[str] = set()
        self.is_on = bool(settings.authorizer_class_name)
        metadata.keep(lambda: self.authorizer, *ACL_RECORDS)
        metadata.keep(lambda: self.client_quotas, *QUOTA_RECORDS)
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Apply the limits of connections, which may change while the broker runs."""
        before, self._settings = self._settings, settings
        limits = settings.max_connections_per_ip, settings.max_connection_creation_rate
        if limits != (UNLIMITED, UNLIMITED) or settings.max_connections_per_ip_overrides:
            self._watch_addresses()
        if self._connections.addresses is not None:
            self._connections.addresses.limit(limits[0], dict(settings.max_connections_per_ip_overrides), limits[1])
        if settings.max_connections != before.max_connections:
            most = max(limit_of_open_files() - RESERVED, FEWEST)
            self._connections.max_connections = min(settings.max_connections, most)

    @cached_property
    def authorizer(self) -> Authorizer:
        """The authorizer. It holds the ACLs of the log even if no request is authorized."""
        from coordinatord.transport.security.authorizer import Authorizer

        settings = self._settings
        return Authorizer(settings.super_users, allow_if_no_acl=settings.allow_everyone_if_no_acl_found)

    @cached_property
    def client_quotas(self) -> ClientQuotas:
        """All quotas of clients."""
        from coordinatord.server.access.quotas import ClientQuotas

        found = ClientQuotas()
        found.on_change = self._quotas_changed
        return found

    @cached_property
    def quotas(self) -> Quotas:
        """The meters that apply the quotas."""
        from coordinatord.server.access.quotas import Quotas

        settings = self._settings
        return Quotas(
            self.client_quotas,
            samples=settings.quota_window_num,
            window_ms=settings.quota_window_size_seconds * 1000,
            mutation_samples=settings.controller_quota_window_num,
            mutation_window_ms=settings.controller_quota_window_size_seconds * 1000,
        )

    @property
    def _forward(self) -> Forward | None:
        return forward_of(self._metadata, self._nodes, self._peers)

    def put_before(
        self, handlers: Mapping[int, Any], shortcuts: Mapping[int, ShortcutMaker], topics: Topics
    ) -> tuple[dict[int, Any], Mapping[int, ShortcutMaker]]:
        """Wrap these handlers, and those of ACLs and quotas, in the rules and meters that apply. Return the handlers,
        and the shortcuts that may be used with them.
        """

        def acls() -> Handlers:
            from coordinatord.server.access.acls import AclApis

            authorizer = self.authorizer if self.is_on else None
            return AclApis(authorizer, self._metadata, lambda: os.urandom(16), self._forward)

        def quotas() -> Handlers:
            from coordinatord.server.access.quota_apis import QuotaApis

            return QuotaApis(self.client_quotas, self._metadata, self._forward)

        self._handlers = {**handlers, **lazy_handlers(ACL_APIS, acls), **lazy_handlers(QUOTA_APIS, quotas)}
        self._shortcuts = shortcuts
        self._topics = topics
        return self._made()

    def follow(self, router: Router, always: Mapping[int, Any]) -> None:
        """Replace the routes of `router` when quotas begin to apply. Must be called before the metadata log is loaded.
        `always` are handlers that are never wrapped.
        """
        self._router = router
        self._always = always

    def _made(self) -> tuple[dict[int, Any], Mapping[int, ShortcutMaker]]:
        from_clients = self._keys - {"connection_creation_rate"}
        handlers, topics = dict(self._handlers), self._topics
        assert topics is not None, "put_before comes first"
        throttling = None
        if from_clients:
            from coordinatord.server.access.throttling import Throttling

            throttling = Throttling(self.quotas, self._now_ms, self._alarm)
            handlers = throttling.limited(handlers)
        shortcuts = {} if "request_percentage" in from_clients else self._shortcuts  # not measured
        if self.is_on:
            from coordinatord.server.access.authorized_fastpath import repeating
            from coordinatord.server.access.guard import guarded

            creates, authorizer = self._settings.auto_create_topics_enable, self.authorizer
            refresh = self._metadata.refresh if self._metadata.follows else None
            handlers = guarded(
                handlers, authorizer, topics, creates_topics=creates, refresh=refresh, repeated=shortcuts
            )
            shortcuts = repeating(shortcuts, authorizer, refresh)
        if throttling is not None:
            handlers = throttling.measured(handlers)
        return handlers, shortcuts

    def _quotas_changed(self) -> None:
        keys = self.client_quotas.keys()
        if keys == self._keys:
            return
        self._keys = keys
        if "connection_creation_rate" in keys:
            self._watch_addresses()
        if self._router is not None:
            handlers, shortcuts = self._made()
            self._router.replace({**handlers, **self._always}, shortcuts)

    def _watch_addresses(self) -> None:
        if self._connections.addresses is not None:
            return
        from coordinatord.server.access.addresses import Addresses
        from coordinatord.server.access.rates import Rate

        settings = self._settings
        meter = Rate(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        self._connections.addresses = Addresses(self.quotas, self._now_ms, self._alarm, meter)
