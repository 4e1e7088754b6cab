"""The exporter's port: the series of the watched cluster and of the exporter itself, health, the live page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coordinatord.base.config import Listener
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.health import Health
from coordinatord.monitoring.dashboard.responses import Answers
from coordinatord.monitoring.dashboard.series import WatchCollector
from coordinatord.monitoring.exporter.watcher import Watcher, wall_ms

EXPORTER: dict[str, str] = {
    "coordinatord_exporter_up": "1 if the last attempt to read the cluster was successful.",
    "coordinatord_exporter_looks_total": "Times that the log and the ends of partitions were read.",
    "coordinatord_exporter_failures_total": "Attempts that failed.",
    "coordinatord_exporter_records_total": "Records of the offsets log that were read.",
    "coordinatord_exporter_lost_records_total": "Records that the cluster deleted before they were read.",
    "coordinatord_exporter_cut_partitions_total": "Partitions of the log that were cut or made anew, and read again.",
    "coordinatord_exporter_look_duration_seconds": "How long the last look took.",
}
"""The exporter's own series, with their help texts; cluster_name is their only label."""


class ExporterCollector(Collector):
    """The metrics of the exporter itself."""

    def __init__(self, watcher: Watcher, cluster_name: str | None) -> None:
        self._watcher = watcher
        self._cluster_name = cluster_name

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry only uses this to detect duplicate names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        watcher = self._watcher
        values = {
            "up": float(watcher.is_up),
            "looks_total": watcher.looks,
            "failures_total": watcher.failures,
            "records_total": watcher.records,
            "lost_records_total": watcher.lost,
            "cut_partitions_total": watcher.cuts,
            "look_duration_seconds": watcher.look_s,
        }
        for name, value in values.items():
            whole = f"coordinatord_exporter_{name}"
            make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = make(whole.removesuffix("_total"), EXPORTER[whole], labels=("cluster_name",))
            family.add_metric((name_of(watcher, self._cluster_name),), value)
            yield family


def name_of(watcher: Watcher, cluster_name: str | None) -> str:
    """Return the cluster_name of all series: the given name, or the cluster's id."""
    return cluster_name or watcher.cluster_id or watcher.bootstrap


def serve(
    listener: Listener, watcher: Watcher, health: Health, cluster_name: str | None, allowed_hosts: Sequence[str] = ()
) -> AdminServer:
    """Serve the metrics, health and the live page. Raises AdminError if the address cannot be bound."""
    server = AdminServer(listener, None, health, allowed_hosts=allowed_hosts, option="--listen")
    server.add_collector(lambda: ExporterCollector(watcher, cluster_name))
    server.add_collector(lambda: WatchCollector(lambda: watcher.view, lambda: name_of(watcher, cluster_name), wall_ms))

    def state() -> str | None:
        return None if watcher.is_up else watcher.why or "the offsets log is being read"

    answers = Answers(
        lambda: watcher.view,
        lambda: name_of(watcher, cluster_name),
        wall_ms,
        state,
        trends=watcher.trends,
        bootstrap=watcher.bootstrap,
    )
    server.add_part("/groups", answers.part)
    server.list_page("/groups/", "who is behind and why, live")
    server.start()
    return server
