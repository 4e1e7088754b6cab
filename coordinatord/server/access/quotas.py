"""Quotas of users, client ids and addresses (KIP-13, KIP-55, KIP-124, KIP-257, KIP-546, KIP-599, KIP-612), pure.

`ClientQuotas` is the image of the log's quota records. `Quotas` measures: for a client's user and client id it finds
the most specific quota, and keeps one meter for all clients that share that quota, as Kafka's ClientQuotaManager does.
A user's quota is shared by the user's clients; a default quota applies to each user, or each client id, separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import isnan
from typing import Any, Final

from coordinatord.base.bounds.mapping import BoundedMapping, size_of
from coordinatord.server.access.rates import Rate, TokenBucket

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCED, FETCHED, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

Entity = frozenset[tuple[str, str | None]]
"""(entity type, name) pairs; the name None is the default of that type."""

MAX_METER_BYTES: Final = 24 * 1024 * 1024
"""Largest size in bytes of all rates, and of all token buckets. Each is for a user, a client id or both, which clients
choose: some ten thousand rates with names of usual length. The least recently used one is removed. Kafka keeps them for
an hour.
"""

SAMPLE_BYTES: Final = 180
METER_BYTES: Final = 300
"""Sizes in bytes: of a rate's sample (a rate has one more than there are windows); and of the rest of a rate, or of a
token bucket, with the tuple of its key.
"""

Key = tuple[str, str, str]
"""(name of the quota, user, client id)."""


def entity(**names: str | None) -> Entity:
    """Return an entity, such as `entity(user="alice", client_id=None)`."""
    return frozenset((kind.replace("_", "-"), name) for kind, name in names.items())


def entity_of(parts: Iterable[Any]) -> Entity:
    """Return the entity of a request or record. If it names a type twice, the last name counts: Kafka puts them into a
    map (AlterClientQuotasRequest.entries, ClientQuotasDelta.replay).
    """
    return frozenset({each.entity_type: each.entity_name for each in parts}.items())


class ClientQuotas:
    """The image of the quota records. `on_change` is called after each change."""

    def __init__(self) -> None:
        self.by_entity: dict[Entity, dict[str, float]] = {}
        self._counts: Counter[str] = Counter()
        self.on_change: Callable[[], object] = _nothing

    def replay(self, record: Any) -> None:
        """Apply a ClientQuotaRecord."""
        who = entity_of(record.entity)
        values = self.by_entity.setdefault(who, {})
        if record.key in values:
            self._counts[record.key] -= 1
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
            self._counts[record.key] += 1
        if not values:
            del self.by_entity[who]
        self.on_change()

    def records(self) -> Iterator[Any]:
        """Return the records that make this image (`metadata.log.Image`)."""
        for who in list(self.by_entity):
            for key, value in list(self.by_entity.get(who, {}).items()):
                yield record_of(who, key, value)

    def clear(self) -> None:
        """Remove all quotas."""
        self.by_entity.clear()
        self._counts.clear()
        self.on_change()

    def keys(self) -> set[str]:
        """Return the names of the quotas that exist for any entity."""
        return {key for key, count in self._counts.items() if count}

    def of(self, key: str, user: str, client_id: str) -> tuple[float, tuple[str, str]] | None:
        """Return the quota of a client, and the clients that share it: (user, client id), "" for all of them. None
        without a quota.
        """
        for who, shared in (
            (entity(user=user, client_id=client_id), (user, client_id)),
            (entity(user=user, client_id=None), (user, client_id)),
            (entity(user=user), (user, "")),
            (entity(user=None, client_id=client_id), (user, client_id)),
            (entity(user=None, client_id=None), (user, client_id)),
            (entity(user=None), (user, "")),
            (entity(client_id=client_id), ("", client_id)),
            (entity(client_id=None), ("", client_id)),
        ):
            bound = self.by_entity.get(who, {}).get(key)
            if bound is not None:
                return bound, shared
        return None

    def of_address(self, address: str) -> int | None:
        """Return the rate of connections of an address, an int as in ClientQuotaMetadataManager; None without a
        quota.
        """
        for who in (entity(ip=address), entity(ip=None)):
            bound = self.by_entity.get(who, {}).get(CONNECTIONS)
            if bound is not None:
                return 0 if isnan(bound) else int(bound)
        return None


def record_of(who: Entity, key: str, value: float | None) -> Any:
    """Return the record that sets a quota, or removes it if `value` is None."""
    from kafka_wire.records.cluster_metadata import ClientQuotaRecord, EntityData

    parts = [EntityData(kind, name) for kind, name in sorted(who)]
    return ClientQuotaRecord(parts, key, value or 0.0, value is None)


class Quotas:
    """The meters of clients. `samples` and `window_ms` are quota.window.*; those of mutations are
    controller.quota.window.*.
    """

    def __init__(
        self, quotas: ClientQuotas, *, samples: int, window_ms: int, mutation_samples: int, mutation_window_ms: int
    ) -> None:
        self.quotas = quotas
        self.window_ms = window_ms
        self._windows = samples, window_ms
        self._mutation_windows = mutation_samples, mutation_window_ms
        rate_bytes = METER_BYTES + SAMPLE_BYTES * (samples + 1)
        self._rates = BoundedMapping[Key, Rate](MAX_METER_BYTES, lambda key, _: size_of(key) + rate_bytes)
        self._buckets = BoundedMapping[Key, TokenBucket](MAX_METER_BYTES, lambda key, _: size_of(key) + METER_BYTES)

    def used(self, key: str, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Add to the use of a client. Return its throttle time in ms."""
        found = self.quotas.of(key, user, client_id)
        if found is None:
            return 0
        bound, shared = found
        rate = self._rate(key, shared)
        rate.record(value, now_ms)
        return rate.throttle_ms(bound, now_ms)

    def unused(self, key: str, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Subtract from the use of a client that does not get the value now."""
        found = self.quotas.of(key, user, client_id)
        if found is not None:
            self._rate(key, found[1]).record(-value, now_ms)

    def most(self, key: str, user: str, client_id: str) -> float | None:
        """Return the largest use of one request: the quota over all windows but one. None for no limit."""
        found = self.quotas.of(key, user, client_id)
        if found is None:
            return None
        bound, _ = found
        samples, window_ms = self._windows
        return 0.0 if isnan(bound) else bound * (samples - 1) * window_ms / 1000

    def mutate(self, user: str, client_id: str, count: float, now_ms: int, *, is_strict: bool) -> int:
        """Take tokens for changes of partitions. Return the throttle time in ms; if it is above 0 and `is_strict`,
        nothing was taken.
        """
        found = self.quotas.of(MUTATIONS, user, client_id)
        if found is None:
            return 0
        bound, shared = found
        key = MUTATIONS, *shared
        bucket = self._buckets.touch(key)
        if bucket is None:
            bucket = TokenBucket(*self._mutation_windows)
            self._buckets.put(key, bucket)
        if is_strict and (throttle_ms := bucket.throttle_ms(bound, now_ms)):
            return throttle_ms
        bucket.take(count, bound, now_ms)
        return 0 if is_strict else bucket.throttle_ms(bound, now_ms)

    def connected(self, address: str, now_ms: int) -> int:
        """Count a connection of an address. Return the time in ms by which it came too early: at most one window
        (ConnectionQuotas).
        """
        bound = self.quotas.of_address(address)
        if bound is None:
            return 0
        rate = self._rate(CONNECTIONS, (address, ""))
        rate.record(1, now_ms)
        return min(rate.throttle_ms(bound, now_ms), self.window_ms)

    def not_connected(self, address: str, now_ms: int) -> None:
        """Subtract a rejected connection, which does not count."""
        self._rate(CONNECTIONS, (address, "")).record(-1, now_ms)

    def _rate(self, key: str, shared: tuple[str, str]) -> Rate:
        found = self._rates.touch((key, *shared))
        if found is None:
            found = Rate(*self._windows)
            self._rates.put((key, *shared), found)
        return found


def _nothing() -> None:
    """Do nothing: the default of `on_change`."""
