# One small image that runs the daemon:      docker build -t coordinatord .
# The clients of deploy/compose.yaml:        docker build -t coordinatord-clients --target clients .
# The exporter, for any Kafka cluster:       docker build -t coordinatord-exporter --target exporter .
#
# Packages come from deploy/wheelhouse when it holds wheels (no network is used then: see the README there), from the package
# index otherwise. BASE_IMAGE is any image with Python 3.11 or later, its venv module, useradd and a shell.
#
# COMPILE=1: the hot modules are C (setup.py), which takes some minutes; the compiler, from the base image or from Debian's
# packages, stays behind. 0: they are Python. auto: C, unless the wheelhouse holds wheels: then there is no network to get a
# compiler from. A wheel of coordinatord in the wheelhouse (`make wheel`, with the base image's Python) is taken as it is.
ARG BASE_IMAGE=python:3.14-slim

FROM ${BASE_IMAGE} AS packages
COPY deploy/wheelhouse /wheelhouse
RUN if ls /wheelhouse/*.whl >/dev/null 2>&1; \
    then printf '[global]\nno-index = true\nfind-links = /wheelhouse\n' >/etc/pip.conf; fi \
 && python3 -m venv /opt/pip \
 && python3 -m venv --without-pip /opt/coordinatord \
 && python3 -m venv --without-pip /opt/clients

FROM packages AS clients-build
RUN /opt/pip/bin/pip --disable-pip-version-check --python /opt/clients/bin/python3 install --no-cache-dir kafka-python

FROM packages AS daemon-build
WORKDIR /src
ARG COMPILE=auto
RUN as_c=$COMPILE; missing=; \
    if [ "$as_c" = auto ]; then if ls /wheelhouse/*.whl >/dev/null 2>&1; then as_c=0; else as_c=1; fi; fi; \
    echo "$as_c" >/compile; \
    if [ "$as_c" = 1 ]; then \
        command -v cc >/dev/null || missing="gcc libc6-dev"; \
        python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
            || missing="$missing python3-dev"; \
        [ -z "$missing" ] || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } \
            || { echo "no compiler: --build-arg COMPILE=0 builds without one" >&2; exit 1; }; \
    fi
# The dependencies in a layer of their own: a change of our sources does not install them again.
COPY deploy/requirements.txt ./
RUN /opt/pip/bin/pip --disable-pip-version-check --python /opt/coordinatord/bin/python3 install --no-cache-dir \
    --require-hashes --only-binary=:all: -r requirements.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY protocol protocol
COPY coordinatord coordinatord
# -s: without the symbols for a debugger.
RUN if ls /wheelhouse/coordinatord-*.whl >/dev/null 2>&1; then what=coordinatord; else what=.; fi \
 && LDFLAGS=-Wl,-s COORDINATORD_COMPILE=$(cat /compile) \
    /opt/pip/bin/pip --disable-pip-version-check --python /opt/coordinatord/bin/python3 install --no-cache-dir --no-deps "$what" \
 && /opt/coordinatord/bin/coordinatord --version

FROM ${BASE_IMAGE} AS clients
COPY --from=clients-build /opt/clients /opt/clients
COPY deploy/examples /opt/examples
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/clients/bin/python3"]
CMD ["/opt/examples/consumer.py"]

FROM ${BASE_IMAGE} AS daemon
RUN groupadd --gid 10001 coordinatord \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/coordinatord --shell /usr/sbin/nologin coordinatord \
 && install -d -o 10001 -g 10001 -m 0750 /var/lib/coordinatord
COPY --from=daemon-build /opt/coordinatord /opt/coordinatord
# Settings of the environment win over those of a file, flags over both (docker run coordinatord --set group.max.size=100).
# Clients that do not share the container's network need COORDINATORD_ADVERTISED_LISTENERS.
ENV PATH=/opt/coordinatord/bin:$PATH \
    COORDINATORD_LISTEN=0.0.0.0:9092 \
    COORDINATORD_ADMIN=0.0.0.0:9180 \
    COORDINATORD_DATA_DIR=/var/lib/coordinatord
# A number, so that Kubernetes' runAsNonRoot can tell that it is not root.
USER 10001:10001
VOLUME /var/lib/coordinatord
EXPOSE 9092 9180
STOPSIGNAL SIGTERM
# http.client, because urllib would ask the proxy that a docker client's configuration puts into every container.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["python3", "-c", "import http.client, os; \
c = http.client.HTTPConnection('127.0.0.1', int(os.environ['COORDINATORD_ADMIN'].rpartition(':')[2]), timeout=2); \
c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["coordinatord", "serve"]

FROM daemon-build AS exporter-build
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["lag"], sep="\n")' \
    >lag.txt \
 && /opt/pip/bin/pip --disable-pip-version-check --python /opt/coordinatord/bin/python3 install --no-cache-dir -r lag.txt

FROM ${BASE_IMAGE} AS exporter
COPY --from=exporter-build /opt/coordinatord /opt/coordinatord
# numba keeps what it has compiled where it can write.
ENV PATH=/opt/coordinatord/bin:$PATH \
    NUMBA_CACHE_DIR=/tmp/numba
USER 10001:10001
EXPOSE 9308
STOPSIGNAL SIGTERM
ENTRYPOINT ["coordinatord", "exporter", "--listen", "0.0.0.0:9308"]

# A node of several, with the log in PostgreSQL.
FROM daemon-build AS node-build
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["postgresql"], sep="\n")' \
    >postgresql.txt \
 && /opt/pip/bin/pip --disable-pip-version-check --python /opt/coordinatord/bin/python3 install --no-cache-dir -r postgresql.txt

FROM daemon AS node
COPY --from=node-build /opt/coordinatord /opt/coordinatord

# What a build without a target makes.
FROM daemon
