#!/usr/bin/env bash
# Sets the project up and runs it; --help says how. Needs only bash, Python >= 3.10 and a JDK.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${REPLICATION_HOME:-$repo/.local}
case $home in /*) ;; *) home=$PWD/$home ;; esac
cache=${REPLICATION_CACHE:-${XDG_CACHE_HOME:-${HOME:-$home}/.cache}/kafka-replication}
venv=$home/venv
interceptor=$repo/replication/jvm/preserve-timestamps.jar
interceptor_source=$repo/replication/jvm/PreserveTimestamps.java

usage() {
  cat <<'HELP'
Usage: ./spark-submit.sh [--keep] [-- demo arguments]
         Demo on this machine: two Kafka clusters, producers, the mirror, a comparison of both sides.
         --keep leaves clusters and mirror running and prints how to connect.
       ./spark-submit.sh --config FILE [--flow 'A->B'] [--mode auto|realtime|microbatch|drain]
                         [--dry-run] [-- spark-submit arguments]
         Replicates what FILE (YAML or .properties) says. --dry-run prints the command only.
       ./spark-submit.sh --setup [dev] [mm2]
         Only prepares: Python packages, JVM jars, the timestamp interceptor. dev adds what the tests
         need, mm2 the MirrorMaker 2 of the benchmarks.

Both clusters of a flow, everything else too, are in FILE; these come from the environment:
  MASTER, DEPLOY_MODE   where Spark runs; default: this machine, with a slot for every partition, client
  DRIVER_MEMORY         default 2g
  PYTHON, JAVA_HOME     which Python (>= 3.10) and Java (17 to 25) to use; default: from PATH
  REPLICATION_HOME      the local environment; default .local beside this script
  REPLICATION_CACHE     downloaded jars; default ~/.cache/kafka-replication
  IVY_SETTINGS          an Ivy settings file, where jars come from an own mirror

Ctrl-C or SIGTERM ends a mirror cleanly; a second one, or 60 s, ends it at once.
Exit codes: 0 a clean end; 2 wrong usage, configuration or set-up; others: replication/errors.py.
HELP
}

say() { printf 'spark-submit.sh: %s\n' "$*" >&2; }

fail() { say "$*"; exit 2; }

# ---- Set-up. A stamp in $home/ready is written after its step is complete and holds what it was made from.

is_ready() { [ -f "$home/ready/$1" ] && [ "$(<"$home/ready/$1")" = "$2" ]; }

stamp() { printf '%s\n' "$2" >"$home/ready/$1.part" && mv "$home/ready/$1.part" "$home/ready/$1"; }

find_python() {
  local candidates=(python3.13 python3.12 python3.11 python3.10 python3) candidate without_venv=
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue
    python=$candidate
    "$python" -c 'import ensurepip, venv' 2>/dev/null && return
    without_venv=$python
  done
  [ -z "$without_venv" ] ||
    fail "$without_venv has no venv module; install it (Debian and Ubuntu: apt-get install python3-venv)"
  fail "no Python >= 3.10 among: ${candidates[*]}; install one, or set PYTHON to its path"
}

find_java() {
  java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  local version
  version=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p') || true
  [ -n "$version" ] || fail "no Java at '$java'; install a JDK 17 or 21, or set JAVA_HOME to one"
  { [ "$version" -ge 17 ] && [ "$version" -le 25 ]; } ||
    fail "'$java' is Java $version, Spark 4.2 runs on 17 to 25; install a JDK 17 or 21, or set JAVA_HOME to one"
}

check_javac() {
  "${java}c" -version >/dev/null 2>&1 ||
    fail "no '${java}c': this Java has no compiler; install a JDK 17 or 21, or set JAVA_HOME to one"
}

# Held until the descriptors close, so a killed set-up leaves no lock behind (flock(1) is not on macOS).
lock() {
  mkdir -p "$home/ready" "$home/log" "$home/jars" "$cache" ||
    fail "cannot write $home or $cache; set REPLICATION_HOME and REPLICATION_CACHE to writable folders"
  exec 8>"$home/lock" 9>"$cache/lock"
  "$python" - <<'PY'
import fcntl, sys
for descriptor in (8, 9):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("spark-submit.sh: waiting for another set-up to finish", file=sys.stderr)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
PY
}

install_packages() { # EXTRAS KEY
  local log=$home/log/pip before=
  say "installing Python packages (a few minutes at first) into $venv"
  if [ -f "$home/ready/spark" ] && [ -x "$venv/bin/python" ]; then
    before=$(<"$home/ready/spark")
    rm -f "$home/ready/spark" "$home/ready/dev" # killed from here on, the next set-up starts afresh
  else
    "$python" -m venv --clear "$venv" >"$log" 2>&1 || fail "cannot make $venv: $(tail -n 1 "$log")"
  fi
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  local pip=("$venv/bin/python" -m pip install --quiet -c "$repo/conf/constraints.txt")
  # Not isolated, so that the build tool is the pinned one too.
  if ! { "${pip[@]}" setuptools && "${pip[@]}" --no-build-isolation -e "$repo[$1]"; } >"$log" 2>&1; then
    [ -z "$before" ] || stamp spark "$before"
    fail "cannot install the Python packages (no network, or an index that lacks one?):" \
      "$(grep -i error "$log" | tail -n 1); all of it: $log"
  fi
}

resolve_jars() { # CONFIGURATION
  local log=$home/log/ivy-$1 part=$home/jars/$1.part ivy
  say "resolving the jars of '$1' in conf/jars.xml"
  ivy=$(echo "$venv"/lib/python*/site-packages/pyspark/jars/ivy-*.jar)
  rm -rf "$part"
  "$java" -jar "$ivy" ${IVY_SETTINGS:+-settings "$IVY_SETTINGS"} -ivy "$repo/conf/jars.xml" -confs "$1" \
    -types jar bundle -cache "$cache/ivy" \
    -retrieve "$part/[artifact]-[revision](-[classifier]).[ext]" >"$log" 2>&1 ||
    fail "cannot fetch the JVM jars of '$1' (no network, or a mirror that lacks one?); see $log"
  rm -rf "$home/jars/$1"
  mv "$part" "$home/jars/$1"
}

compile_interceptor() {
  local log=$home/log/javac classes=$home/classes
  rm -rf "$classes"
  { "${java}c" --release 17 -Xlint:all -cp "$home/jars/spark/*" -d "$classes" "$interceptor_source" &&
    "${java%java}jar" --create --date=2020-01-01T00:00:00Z --file "$interceptor.part" -C "$classes" .; } \
    >"$log" 2>&1 || fail "cannot compile $interceptor_source: $(head -n 1 "$log"); all of it: $log"
  mv "$interceptor.part" "$interceptor"
}

set_up() { # [dev] [CONFIGURATION of conf/jars.xml]...
  local extras=spark step packages jars missing=
  packages=$(cat "$repo/setup.cfg" "$repo/conf/constraints.txt" | cksum)
  jars=$(cksum <"$repo/conf/jars.xml")
  [ "$1" != dev ] || { extras=dev && shift; }
  find_java
  { [ -x "$venv/bin/python" ] && is_ready "$extras" "$packages"; } || missing=1
  for step in "$@"; do is_ready "jars-$step" "$jars" || missing=1; done
  if [ ! "$interceptor" -nt "$interceptor_source" ]; then
    missing=1
    check_javac # before anything is downloaded
  fi
  [ -n "$missing" ] || return 0

  find_python
  lock
  if [ ! -x "$venv/bin/python" ] || ! is_ready "$extras" "$packages"; then
    if [ "$extras" = dev ]; then
      install_packages spark,dev
      stamp dev "$packages"
    else
      install_packages spark
    fi
    stamp spark "$packages"
  fi
  for step in "$@"; do
    if ! is_ready "jars-$step" "$jars"; then
      resolve_jars "$step"
      stamp "jars-$step" "$jars"
    fi
  done
  if [ ! "$interceptor" -nt "$interceptor_source" ]; then compile_interceptor; fi
  exec 8>&- 9>&-
}

# ---- Running.

# spark-submit does not pass signals on to Python: the job watches for a file instead.
run_until_stopped() {
  local folder job code stops=0 deadline
  folder=$(mktemp -d)
  export REPLICATION_STOP_FILE=$folder/stop
  trap 'stops=$((stops + 1))' INT TERM HUP
  set -m # a process group of its own, which Ctrl-C does not reach
  "$@" </dev/null &
  job=$!
  set +m
  code=0 && wait "$job" || code=$?
  if [ "$stops" -gt 0 ]; then # the wait was interrupted, the job goes on
    say "stopping; once more, or 60 s, ends it at once"
    touch "$REPLICATION_STOP_FILE"
    deadline=$((SECONDS + 60))
    while kill -0 "$job" 2>/dev/null && [ "$stops" -lt 2 ] && [ "$SECONDS" -lt "$deadline" ]; do
      sleep 0.2 || true
    done
    kill -KILL -- "-$job" 2>/dev/null && say "it did not end in time and was killed; starting it again is safe"
    code=0 && wait "$job" || code=$?
  fi
  rm -rf "$folder"
  exit "$code"
}

# Named by its content: a running job goes on loading modules from the file it was started with.
package_zip() {
  "$venv/bin/python" - "$repo" "$home/py-files" <<'PY'
import hashlib, io, os, pathlib, sys, zipfile
repo, folder = map(pathlib.Path, sys.argv[1:])
content = io.BytesIO()
with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
    for file in sorted((repo / "replication").rglob("*.py")):
        archive.writestr(zipfile.ZipInfo(str(file.relative_to(repo))), file.read_bytes())
name = folder / f"replication-{hashlib.sha256(content.getvalue()).hexdigest()[:12]}.zip"
if not name.exists():
    folder.mkdir(exist_ok=True)
    part = name.with_suffix(f".{os.getpid()}")
    part.write_bytes(content.getvalue())
    part.rename(name)
print(name)
PY
}

mirror() { # CONFIG DRY_RUN JOB_ARGUMENTS... -- SPARK_ARGUMENTS...
  local config=$1 dry_run=$2 job=() command slots jars zip deploy_mode=${DEPLOY_MODE:-client} master=${MASTER:-}
  local log4j2=$repo/conf/log4j2.properties
  shift 2
  while [ "$1" != -- ]; do job+=("$1") && shift; done
  shift
  "$venv/bin/python" -m replication validate "$config" ${master:+--master "$master"} >/dev/null
  if [ -z "$master" ]; then
    slots=$("$venv/bin/python" -m replication slots "$config")
    master="local[$slots]"
  fi
  jars=$(printf '%s,' "$home"/jars/spark/*.jar)$interceptor
  zip=$(package_zip)
  command=(env SPARK_HOME="$(echo "$venv"/lib/python*/site-packages/pyspark)" PYTHONUNBUFFERED=1)
  if [ "$deploy_mode" = client ]; then
    command+=(PYSPARK_PYTHON="${PYSPARK_PYTHON:-$venv/bin/python}" PYSPARK_DRIVER_PYTHON="$venv/bin/python")
  fi
  command+=("$venv/bin/spark-submit" --master "$master" --deploy-mode "$deploy_mode" --name "replication $config")
  if [ "$deploy_mode" = cluster ]; then
    command+=(--files "$config,$log4j2")
    config=$(basename "$config")
    log4j2=$(basename "$log4j2")
  fi
  command+=(
    --jars "$jars"
    --py-files "$zip"
    --driver-memory "${DRIVER_MEMORY:-2g}"
    --driver-java-options "-Dlog4j2.configurationFile=$log4j2"
    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension
    --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
    --conf spark.sql.adaptive.enabled=false # a flow has no shuffle to adapt
    --conf spark.sql.session.timeZone=UTC
    --conf spark.locality.wait=0
    --conf spark.task.maxFailures=1 # a second attempt would write the first one's records again
    --conf spark.speculation=false  # and so would a second copy of a slow task
    --conf spark.ui.showConsoleProgress=false
    --conf "spark.redaction.regex=(?i)secret|password|token|credential|access[.]?key|jaas[.]config|keystore[.]key"
    "$@"
    "$repo/jobs/mirror.py" --config "$config" ${job[@]+"${job[@]}"}
  )
  if [ -n "$dry_run" ]; then
    printf '%q ' "${command[@]}"
    echo
  elif [ "$deploy_mode" = cluster ]; then
    "${command[@]}" # the driver runs elsewhere: ending this does not end it
  else
    run_until_stopped "${command[@]}"
  fi
}

wrong() {
  say "$*"
  usage >&2
  exit 2
}

main() {
  local config='' dry_run='' keep=() job=()
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage && exit ;;
      --setup)
        shift
        set_up_only "$@"
        exit
        ;;
      --keep) keep=(--keep) && shift ;;
      --dry-run) dry_run=1 && shift ;;
      --config | --flow | --mode)
        [ $# -gt 1 ] || wrong "$1 needs a value"
        if [ "$1" = --config ]; then config=$2; else job+=("$1" "$2"); fi
        shift 2
        ;;
      --) shift && break ;;
      *) wrong "unknown argument '$1'" ;;
    esac
  done
  if [ -n "$config" ]; then
    [ ${#keep[@]} -eq 0 ] || wrong "--keep belongs to the demo, not to --config"
    set_up spark
    mirror "$config" "$dry_run" ${job[@]+"${job[@]}"} -- "$@"
  else
    [ "$dry_run${#job[@]}" = 0 ] || wrong "--flow, --mode and --dry-run need --config FILE"
    set_up spark kafka
    exec "$venv/bin/python" -m replication demo ${keep[@]+"${keep[@]}"} "$@"
  fi
}

set_up_only() { # [dev] [mm2]
  local extras='' jars=(spark kafka)
  while [ $# -gt 0 ]; do
    case $1 in
      dev) extras=dev ;;
      mm2) jars+=(mm2) ;;
      *) wrong "--setup takes dev and mm2, not '$1'" ;;
    esac
    shift
  done
  set_up ${extras:+dev} "${jars[@]}"
}

main "$@"
