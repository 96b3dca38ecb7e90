#!/usr/bin/env bash
# Checks everything: format, lint, types, shell, wheel, all tests with coverage. --soak adds the tests
# that take many minutes. With other arguments: pytest with these, and nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./spark-submit.sh --setup dev mm2
home=${REPLICATION_HOME:-$PWD/.local}
python=$home/venv/bin/python

step() { # NAME COMMAND...
  local name=$1 started=$SECONDS code
  shift
  printf '\n== %s\n' "$name"
  set +e # not `"$@" || …`, which would switch -e off inside the command too
  (set -e && "$@")
  code=$?
  set -e
  [ "$code" = 0 ] || { printf '== %s failed after %s s\n' "$name" $((SECONDS - started)) >&2 && exit 1; }
  printf '== %s: %s s\n' "$name" $((SECONDS - started))
}

shell_syntax() {
  local file
  for file in spark-submit.sh conf/set-up.sh tests/run.sh tests/bench/run.sh .ci/run; do bash -n "$file"; done
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

tests() { # pytest itself fails where it finds no test
  "$python" -m coverage erase
  "$python" -m coverage run -m pytest "$@"
  "$python" -m coverage report
}

if [ $# -gt 0 ] && [ "$*" != --soak ]; then
  step tests "$python" -m pytest "$@"
  exit
fi
step format "$python" -m ruff format --check .
step lint "$python" -m ruff check .
step types "$python" -m mypy
step 'shell syntax' shell_syntax
step wheel wheel
step tests tests "$@"
