#!/usr/bin/env bash
# Races this mirror against MirrorMaker 2 on this machine; --help lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

./spark-submit.sh --setup dev mm2
./spark-submit.sh --setup bench || echo 'without matplotlib: tables only, no plots' >&2
exec "${REPLICATION_HOME:-$PWD/.local}/venv/bin/python" -m tests.bench "$@"
