"""The files of deploy/ and the Dockerfile say what the daemon says: addresses, paths, settings. No engine is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from coordinatord.base.config.load import from_environment, load
from coordinatord.cli import cli
from coordinatord.server.postgresql.standby_listener import endpoints as front_endpoints
from tests.compose.images import NEEDED, PROJECT

DEPLOY = PROJECT / "deploy"
PORT, ADMIN_PORT, DATA_DIR = 9092, 9180, "/var/lib/coordinatord"


def parsed(relative: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / relative).read_text()))


def dockerfile_environment() -> dict[str, str]:
    text = (PROJECT / "Dockerfile").read_text()
    return dict(re.findall(r"^(?:ENV| ) +(COORDINATORD_\w+)=(\S+)", text, re.MULTILINE))


def settings_of(environment: dict[str, str]) -> Any:
    assert from_environment(environment), "no setting at all"
    loaded = load(environment=environment)
    assert not loaded.warnings
    return loaded.settings


def test_the_image_listens_where_it_says() -> None:
    settings = settings_of(dockerfile_environment())
    assert [(each.host, each.port) for each in settings.endpoints] == [("0.0.0.0", PORT)]
    assert (settings.admin.host, settings.admin.port) == ("0.0.0.0", ADMIN_PORT)
    assert str(settings.data_dir) == DATA_DIR
    text = (PROJECT / "Dockerfile").read_text()
    assert f"EXPOSE {PORT} {ADMIN_PORT}\n" in text
    assert f"VOLUME {DATA_DIR}\n" in text
    assert 'ENTRYPOINT ["coordinatord", "serve"]' in text


def test_the_wheelhouse_is_for_the_default_base_image() -> None:
    tag = re.search(r"^ARG BASE_IMAGE=python:([\d.]+)-", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert tag is not None
    assert f'"--python", default="{tag[1]}"' in (DEPLOY / "wheelhouse" / "fill.py").read_text()
    assert f"BASE_IMAGE:-python:{tag[1]}-slim" in (DEPLOY / "compose.yaml").read_text()


def test_compose_gives_the_daemon_settings_that_it_takes() -> None:
    (compose,) = parsed("compose.yaml")
    coordinator = compose["services"]["coordinator"]
    written = {name: _default(value) for name, value in coordinator["environment"].items()}
    settings = settings_of(dockerfile_environment() | written)
    told = {endpoint.name: (endpoint.advertised_host, endpoint.advertised_port) for endpoint in settings.endpoints}
    assert told == {"PLAINTEXT": ("coordinator", PORT), "HOST": ("localhost", 19092)}
    assert [_default(each) for each in coordinator["ports"]] == [
        "127.0.0.1:19092:19092",
        f"127.0.0.1:{ADMIN_PORT}:9180",
    ]
    assert coordinator["volumes"] == [f"data:{DATA_DIR}"]
    for name in ("producer", "consumer-1", "consumer-2", "consumer-3"):
        client = compose["services"][name]
        assert client["environment"]["BOOTSTRAP_SERVERS"] == f"coordinator:{PORT}"
        assert client["depends_on"]["coordinator"]["condition"] == "service_healthy"
        script = Path(client["command"][0])
        assert script.parent == Path("/opt/examples")
        assert (DEPLOY / "examples" / script.name).is_file()


def test_the_consumer_on_the_host_comes_in_by_the_listener_that_advertises_the_host() -> None:
    (compose,) = parsed("compose.yaml")
    written = {name: _default(value) for name, value in compose["services"]["coordinator"]["environment"].items()}
    [host] = [each for each in settings_of(dockerfile_environment() | written).endpoints if each.name == "HOST"]
    consumer = compose["services"]["consumer-on-host"]
    told = f"{host.advertised_host}:{host.advertised_port}"
    assert _default(consumer["environment"]["BOOTSTRAP_SERVERS"]) == told
    assert (consumer["network_mode"], consumer["profiles"]) == ("host", ["host"])
    assert consumer["environment"]["GROUP_ID"] != compose["services"]["consumer-1"]["environment"]["GROUP_ID"]


def test_kubernetes_agrees_with_the_image() -> None:
    service, stateful_set = parsed("kubernetes/coordinatord.yaml")
    pod = stateful_set["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"kafka": PORT, "admin": ADMIN_PORT}
    assert {each["targetPort"]: each["port"] for each in service["spec"]["ports"]} == ports
    assert service["metadata"]["name"] == stateful_set["spec"]["serviceName"]
    assert service["spec"]["selector"] == stateful_set["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(ADMIN_PORT)
    assert [each["mountPath"] for each in container["volumeMounts"]] == [DATA_DIR]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/readyz",
        "readiness": "/readyz",
        "liveness": "/healthz",
    }
    assert {probe["port"] for probe in probes.values()} == {"admin"}
    assert pod["spec"]["securityContext"]["runAsUser"] == 10001
    assert "USER 10001:10001\n" in (PROJECT / "Dockerfile").read_text()
    written = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    filled = {
        name: value.replace("$(POD_NAME)", "pod-0").replace("$(POD_NAMESPACE)", "ns") for name, value in written.items()
    }
    (endpoint,) = settings_of(dockerfile_environment() | filled).endpoints
    assert (endpoint.advertised_host, endpoint.advertised_port) == ("pod-0.coordinatord.ns.svc", PORT)


def test_prometheus_scrapes_the_admin_port() -> None:
    (configuration,) = parsed("prometheus/prometheus.yml")
    job, exporter = configuration["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"] == [{"targets": [f"coordinator:{ADMIN_PORT}"]}]
    assert exporter["static_configs"] == [{"targets": ["exporter:9308"]}]
    assert [(DEPLOY / "prometheus" / name).is_file() for name in configuration["rule_files"]] == [True]


def test_the_exporter_of_compose_takes_what_it_is_given() -> None:
    (compose,) = parsed("compose.yaml")
    service = compose["services"]["exporter"]
    entry = re.findall(r"^ENTRYPOINT (\[.*\])$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    (ours,) = [json.loads(each) for each in entry if '"exporter"' in each]
    command = cli.get_command(click.Context(cli), ours[1])
    assert command is not None
    given = command.make_context("exporter", [*ours[2:], *service["command"]]).params
    assert (given["bootstrap"], given["listen"]) == (f"coordinator:{PORT}", "0.0.0.0:9308")
    assert [_default(each) for each in service["ports"]] == ["127.0.0.1:9308:9308"]
    for watcher in ("exporter", "prometheus", "grafana"):
        assert compose["services"][watcher]["profiles"] == ["watch"]
    mounted = [each for name in ("prometheus", "grafana") for each in compose["services"][name]["volumes"]]
    assert all((DEPLOY / each.split(":")[0]).exists() for each in mounted)
    source = parsed("grafana/provisioning/datasources/prometheus.yaml")[0]["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = parsed("grafana/provisioning/dashboards/dashboards.yaml")[0]["providers"]
    assert all(provider["options"]["path"] in each for each in mounted if "consumer-groups.json" in each)


def test_the_unit_gives_the_daemon_settings_that_it_takes() -> None:
    unit = (DEPLOY / "systemd" / "coordinatord.service").read_text()
    written = dict(re.findall(r"^Environment=(COORDINATORD_\w+)=(\S+)$", unit, re.MULTILINE))
    settings = settings_of(written)
    assert (settings.admin.host, settings.admin.port) == ("127.0.0.1", ADMIN_PORT)
    assert str(settings.data_dir) == DATA_DIR
    state_directory = re.search(r"^StateDirectory=(\S+)$", unit, re.MULTILINE)
    assert state_directory is not None
    assert f"/var/lib/{state_directory[1]}" == DATA_DIR
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) * 1000 > settings.shutdown_timeout_ms


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="skipped: needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "coordinatord.service").read_text()
    copy = tmp_path / "coordinatord.service"
    # The program has to exist for systemd-analyze.
    copy.write_text(unit.replace("/opt/coordinatord/bin/coordinatord", shutil.which("true") or "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    ours = [line for line in verified.stderr.splitlines() if "coordinatord" in line]
    assert (verified.returncode, ours) == (0, []), verified.stderr


def _default(value: str) -> str:
    """A value of a compose file in which no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def test_the_image_is_built_with_what_generates_the_codecs() -> None:
    """setup.py writes them: without it the image would have none, or those that lie about in the checkout."""
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", (PROJECT / "Dockerfile").read_text(), re.M)
        for source in line.split()[:-1]
    ]
    assert {"pyproject.toml", "setup.py", "protocol", "coordinatord"} <= set(copied)
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    assert [source for source in copied if f"!{source}" not in ignored] == []
    assert {source.partition("/")[0] for source in copied} <= set(NEEDED)


def test_the_compiler_stays_in_the_stage_that_compiles() -> None:
    """What `docker build` makes has the modules that it compiled: by default, if there is a network."""
    stages = {}
    for stage in re.split(r"^(?=FROM )", (PROJECT / "Dockerfile").read_text(), flags=re.M)[1:]:
        first, _, instructions = stage.partition("\n")
        _, base, *name = first.split()
        stages[name[-1] if name else ""] = (base, instructions)
    compiling = {name for name, (_, instructions) in stages.items() if "apt-get" in instructions}
    assert compiling == {"daemon-build"}
    assert "ARG COMPILE=auto\n" in stages["daemon-build"][1]
    for shipped in ("", "exporter", "node", "clients"):
        while shipped in stages:
            assert shipped not in ("packages", "daemon-build")
            shipped = stages[shipped][0]
        assert shipped == "${BASE_IMAGE}"


# Several nodes


def test_the_nodes_of_compose_differ_in_their_ids_and_addresses() -> None:
    (compose,) = parsed("compose.cluster.yaml")
    services = compose["services"]
    nodes = {name: each for name, each in services.items() if name != "database"}
    ids = set()
    for name, node in nodes.items():
        written = {key: _default(value) for key, value in node["environment"].items()}
        settings = settings_of(dockerfile_environment() | written)
        (endpoint,) = settings.endpoints
        assert (endpoint.advertised_host, endpoint.advertised_port) == (name, PORT)
        assert [each.name for each in front_endpoints(settings)] == [endpoint.name], "it listens while it waits"
        assert settings.storage == "postgresql://coordinatord@database/coordinatord"
        assert written["PGPASSWORD"] == _default(services["database"]["environment"]["POSTGRES_PASSWORD"])
        assert services["database"]["environment"]["POSTGRES_USER"] == "coordinatord"
        assert node["build"]["target"] == "node"
        assert str(PORT) in node["healthcheck"]["test"][-1]
        ids.add(settings.node_id)
    assert ids == {1, 2, 3}
    assert "FROM daemon AS node\n" in (PROJECT / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("address", "node_id"),
    [("10.244.3.17", (244 * 256 + 3) * 256 + 17), ("10.0.0.9", 9), ("10.255.255.255", 2**24 - 1)],
)
def test_the_pods_of_kubernetes_get_ids_of_their_own(address: str, node_id: int, tmp_path: Path) -> None:
    service, _budget, deployment = parsed("kubernetes/cluster.yaml")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"kafka": PORT, "admin": ADMIN_PORT}
    assert container["readinessProbe"]["tcpSocket"]["port"] == "kafka", "a node that waits serves no /readyz"
    assert [each["mountPath"] for each in container["volumeMounts"]] == [DATA_DIR]
    said = tmp_path / "coordinatord"
    said.write_text('#!/bin/sh\necho "$@"\n')
    said.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "POD_IP": address}
    command = [*container["command"], *container["args"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["serve", "--set", f"node.id={node_id}"]
    written = {
        each["name"]: each["value"].replace("$(POD_IP)", address) for each in container["env"] if "value" in each
    }
    settings = settings_of(dockerfile_environment() | written | {"COORDINATORD_STORAGE": "postgresql://database/name"})
    (endpoint,) = settings.endpoints
    assert (endpoint.advertised_host, endpoint.advertised_port) == (address, PORT)
    assert [each.name for each in front_endpoints(settings)] == [endpoint.name], "it listens while it waits"


def test_all_shares_have_a_pod_while_one_is_away() -> None:
    """In a rolling update, on a drained machine, and while one is replaced: others are enough for all shares."""
    _service, budget, deployment = parsed("kubernetes/cluster.yaml")
    spec, pod = deployment["spec"], deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    written = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    leaders = int(written["COORDINATORD_STORAGE_LEADERS"])
    assert leaders > 1
    update = spec["strategy"]["rollingUpdate"]
    assert (update["maxSurge"], update["maxUnavailable"]) == (1, 0)
    assert spec["replicas"] - budget["spec"]["maxUnavailable"] >= leaders
    labels = spec["selector"]["matchLabels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    spread = pod["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(each["labelSelector"]["matchLabels"] == labels for each in spread)
    (_sleep, pause_s) = container["lifecycle"]["preStop"]["exec"]["command"]
    drains_s = settings_of(dockerfile_environment()).shutdown_timeout_ms / 1000
    assert int(pause_s) + 2 * drains_s < pod["spec"]["terminationGracePeriodSeconds"]
