#!/usr/bin/env bash
# Install the programs that tests need beside Python: Java, Maven, Node, a C compiler, kcat, PostgreSQL, Chromium, Prometheus.
set -euo pipefail
missing=()
command -v java >/dev/null && command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
"${PYTHON:-python3}" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || missing+=(python3-dev)
command -v g++ >/dev/null && command -v make >/dev/null || missing+=(g++ make)
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
command -v kcat >/dev/null || missing+=(kcat)
[ -e /usr/lib/postgresql ] || command -v initdb >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
if ! command -v promtool >/dev/null || ! command -v prometheus >/dev/null; then  # not the package: it starts a server
    [ ${#missing[@]} -gt 0 ] || apt-get update -qq
    folder=$(mktemp -d)
    (cd "$folder" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb .)
    install "$folder/usr/bin/promtool" "$folder/usr/bin/prometheus" /usr/local/bin/
    rm -r "$folder"
fi
