#!/usr/bin/env bash
# Checks format, lint, types, shell syntax and the wheel, and runs the tests that are this commit's turn;
# tests/README.md says which, and what decides. --all runs all tests, --soak also those that take many
# minutes; --soak MODE SECONDS runs the mirror under random faults and nothing else.
# REPLICATION_TEST_BROKERS=docker runs the shared brokers in containers. --coverage adds a report of the
# lines that ran, and minutes. --site builds a site of the documents, with a search, in .local/site, and
# nothing else. quick runs lint, types, and the tests of rules and of the house, which take minutes and
# start neither Spark nor brokers: what to run before a commit. Other arguments go to pytest, and nothing
# else runs.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,/^set/{/^#/s/^# //p}' "${BASH_SOURCE[0]}" && exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

home=${REPLICATION_HOME:-$PWD/.local}
python=$home/venv/bin/python

step() { # NAME COMMAND...
  local name=$1 started=$SECONDS code
  shift
  printf '\n== %s\n' "$name"
  set +e # `"$@" || ...` would switch -e off inside the command, too
  (set -e && "$@")
  code=$?
  set -e
  [ "$code" = 0 ] || { printf '== %s failed after %s s\n' "$name" $((SECONDS - started)) >&2 && exit 1; }
  printf '== %s: %s s\n' "$name" $((SECONDS - started))
}

if [ "${1:-}" = quick ]; then
  [ -x "$home/venv/bin/ruff" ] || ./spark-submit.sh --setup dev java
  step lint "$python" -m ruff check .
  step types "$python" -m mypy
  step tests "$python" -m pytest -n "$(nproc)" tests/unit tests/house "${@:2}"
  exit
fi

docker=''
[ "${REPLICATION_TEST_BROKERS:-}" != docker ] || docker=docker
./spark-submit.sh --setup dev $docker mm2 java
./spark-submit.sh --setup kdc hadoop msk || ./spark-submit.sh --setup kdc hadoop msk ||
  echo 'the tests with Kerberos, on YARN and with AWS_MSK_IAM lack their jars' >&2
./spark-submit.sh --setup prometheus || echo 'the tests with Prometheus and promtool are skipped' >&2
# Debian's Chromium has dozens of packages that only its own installer puts right, so it is installed where nobody minds.
if [ -n "${CI:-}" ] && [ "$(id -u)" = 0 ] && ! command -v chromium >/dev/null; then
  { apt-get install -y chromium || { apt-get update && apt-get install -y chromium; }; } >/dev/null 2>&1 || true
fi
command -v chromium >/dev/null || echo "the tests of pages are skipped; they need Debian's package chromium" >&2

shell_syntax() {
  local file
  for file in spark-submit.sh conf/set-up.sh tests/run.sh tests/bench/run.sh tests/soak/*.sh tests/java/*.sh conf/deploy/*/*.sh .ci/run; do bash -n "$file"; done
}

wheel() { # The wheel must contain our Java classes and must import without this checkout.
  local folder content
  folder=$(mktemp -d)
  rm -rf build # files of an old build would go into the wheel
  "$python" -m build --wheel --no-isolation --outdir "$folder" . >"$folder/log" 2>&1 || { cat "$folder/log" && return 1; }
  content=$("$python" -m zipfile -l "$folder"/*.whl) # no pipe: under pipefail, `grep -q` would break it
  [[ $content == *replication/jvm/replication.jar* ]] || { echo 'the wheel lacks our Java classes' && return 1; }
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/python" -m pip install --quiet --no-deps --no-index "$folder"/*.whl
  (cd "$folder" && venv/bin/python -c 'import replication.errors, replication.offsets.map, replication.model')
  rm -rf "$folder" build
}

# Most tests wait for brokers and timers, so three processes run them, each with its own brokers, and one
# of them at a time runs jobs. On a calm machine the share takes half of this time or less; on one that
# crawls, no test starts after the first limit, and at the second one all that still run are ended.
tests() { # share|all|soak
  local now seconds again budget limits=() bound=() code=0
  now=$(date +%s)
  if [ -n "${CI:-}" ]; then # 80 of CI's 90 minutes, with the set-up
    seconds=$((4800 - SECONDS)) again=600 budget=2400
    bound=(timeout -k 30 $((seconds + 240)))
  else
    seconds=1500 again=240 budget=1200
  fi
  [ "$1" != share ] ||
    limits=(--until $((now + seconds - again)) --hard-end $((now + seconds)) --budget "$budget")
  [ ${#coverage[@]} = 0 ] || "$python" -m coverage erase
  "${bound[@]}" "$python" "${coverage[@]}" -m pytest -n 3 --gate "$1" "${limits[@]}" "${durations[@]}" || code=$?
  if [ ${#coverage[@]} -gt 0 ]; then
    "$python" -m coverage combine --quiet
    "$python" -m coverage report
  fi
  return "$code"
}

if [ "${1:-}" = --site ]; then
  ./spark-submit.sh --setup site
  exec "$home/venv/bin/zensical" build --clean -f .mkdocs.yml
fi
case "${1:-} ${2:-}" in '--soak realtime' | '--soak microbatch' | '--soak drain')
  exec "$python" -m tests.soak "${@:2}" ;;
esac
coverage=() durations=() gate=share
while :; do
  case ${1:-} in
    --coverage) coverage=(-m coverage run) ;;
    --write-durations) durations=(--write-durations) ;;
    --all) gate=all ;;
    --soak) gate=soak ;;
    *) break ;;
  esac
  shift
done
if [ $# -gt 0 ]; then
  [ "$gate" != soak ] || set -- --soak "$@"
  step tests "$python" -m pytest "$@"
  exit
fi
step format "$python" -m ruff format --check .
step lint "$python" -m ruff check .
step types "$python" -m mypy
step 'shell syntax' shell_syntax
step 'Java style' tests/java/style.sh
step wheel wheel
step tests tests "$gate"
