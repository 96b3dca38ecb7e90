#!/usr/bin/env bash
# Checks everything: format, lint, types, shell syntax, wheel, and all tests.
# --soak adds the tests that take many minutes; --soak MODE SECONDS runs the mirror under random faults
# and nothing else. REPLICATION_TEST_BROKERS=docker runs the shared brokers in containers. --coverage adds
# a report of the lines that ran, and minutes. Other arguments go to pytest, and nothing else runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./spark-submit.sh --setup dev mm2
./spark-submit.sh --setup kdc hadoop msk ||
  echo 'the tests with Kerberos, on YARN and with AWS_MSK_IAM lack their jars' >&2
home=${REPLICATION_HOME:-$PWD/.local}
python=$home/venv/bin/python
if [ "${REPLICATION_TEST_BROKERS:-}" = docker ] && ! "$python" -c 'import testcontainers' 2>/dev/null; then
  "$python" -m pip install --quiet -c conf/constraints.txt -e '.[docker]'
fi

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

shell_syntax() {
  local file
  for file in spark-submit.sh conf/set-up.sh tests/run.sh tests/bench/run.sh tests/soak/*.sh conf/deploy/*/*.sh .ci/run; do bash -n "$file"; done
}

wheel() { # The wheel must contain the interceptor and must import without this checkout.
  local folder content
  folder=$(mktemp -d)
  rm -rf build # files of an old build would go into the wheel
  "$python" -m build --wheel --no-isolation --outdir "$folder" . >"$folder/log" 2>&1 || { cat "$folder/log" && return 1; }
  content=$("$python" -m zipfile -l "$folder"/*.whl) # no pipe: under pipefail, `grep -q` would break it
  [[ $content == *replication/jvm/preserve-timestamps.jar* ]] || { echo 'the wheel lacks the interceptor' && return 1; }
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/python" -m pip install --quiet --no-deps --no-index "$folder"/*.whl
  (cd "$folder" && venv/bin/python -c 'import replication.errors, replication.offsets.map, replication.model')
  rm -rf "$folder" build
}

# Most tests wait for brokers and timers, so four processes run them, each with its own brokers. A machine
# shared with others can be too slow for a limit: what fails runs once more, alone, and must pass then.
tests() { # PROCESSES PYTEST_ARGUMENTS...
  local code=0 processes=$1
  shift
  [ ${#coverage[@]} = 0 ] || "$python" -m coverage erase
  pytest -n "$processes" "$@" || code=$?
  if [ "$code" = 1 ]; then # tests failed; any other code is final
    printf '\n== what failed runs once more, alone\n'
    pytest --lf "$@" && code=0
  fi
  if [ ${#coverage[@]} -gt 0 ]; then
    "$python" -m coverage combine --quiet
    "$python" -m coverage report
  fi
  return "$code"
}

pytest() {
  "$python" "${coverage[@]}" -m pytest "$@"
}

# CI should end within half an hour, on a machine whose cores it shares. There the tests with brokers run
# for as long as there is time and show what they find; the tests without brokers decide.
tests_in_ci() {
  local until end=1740
  tests 2 -m 'not cluster' || return 1
  until=$(($(date +%s) + end - 60 - SECONDS)) # a test of the last minute may take one more
  printf '\n== the tests with brokers; they do not decide in CI\n'
  timeout -k 30 "$((end + 900 - SECONDS))" "$python" -m pytest -n 3 -m cluster --until "$until" ||
    printf '\n== some tests with brokers failed or were not run: run ./tests/run.sh on an idle machine\n'
}

case "${1:-} ${2:-}" in '--soak realtime' | '--soak microbatch' | '--soak drain')
  exec "$python" -m tests.soak "${@:2}" ;;
esac
coverage=()
if [ "${1:-}" = --coverage ]; then
  coverage=(-m coverage run)
  shift
fi
if [ $# -gt 0 ] && [ "$*" != --soak ]; then
  step tests "$python" -m pytest "$@"
  exit
fi
step format "$python" -m ruff format --check .
step lint "$python" -m ruff check .
step types "$python" -m mypy
step 'shell syntax' shell_syntax
step wheel wheel
if [ -n "${CI:-}" ]; then step tests tests_in_ci; else step tests tests 4 "$@"; fi
