# Sourced by spark-submit.sh: creates the local environment from setup.cfg, conf/lock, conf/jars.xml,
# conf/jars.sha256 and our Java classes. A step is skipped while its inputs are unchanged.
# It needs bash, Python >= 3.10 and a JDK. On failure it ends the script with one line and exit code 2.
# shellcheck shell=bash

absolute() { case $1 in /*) printf %s "$1" ;; *) printf %s "$PWD/$1" ;; esac; }

home=$(absolute "${REPLICATION_HOME:-$repo/.local}")
export REPLICATION_HOME=$home
cache=$(absolute "${REPLICATION_CACHE:-${XDG_CACHE_HOME:-${HOME:-$home}/.cache}/kafka-replication}")
venv=$home/venv
our_sources=$repo/replication/jvm # all Java files there
our_jar=$our_sources/replication.jar

say() { # spark-submit.sh sets as_json and has_ended
  if [ -n "${as_json:-}" ]; then
    json_line INFO script '' "$*"
  else
    printf 'spark-submit.sh: %s\n' "$*" >&2
  fi
}

json_line() { # LEVEL EVENT FIELDS TEXT
  local text=${4//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//[[:cntrl:]]/ }
  printf '{"time":"%s","level":"%s","event":"%s",%s"text":"%s"}\n' \
    "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" "$1" "$2" "${3:+\"fields\":{$3\},}" "$text" >&2
}

# The last line of a log that ends badly. Whoever reads only that one has the cause and what can be done.
say_end() { # CODE CAUSE...
  has_ended=1
  if [ -n "${as_json:-}" ]; then
    json_line ERROR job_ended "\"exit_code\":$1" "${*:2}"
  else
    say "exit code $1: ${*:2}"
  fi
}

fail() { say_end 2 "$@"; exit 2; }

# A stamp in $home/ready is written when its step is complete; it holds a checksum of the inputs.

is_ready() { [ -r "$home/ready/$1" ] && [ "$(<"$home/ready/$1")" = "$2" ]; }

stamp() { printf '%s\n' "$2" >"$home/ready/$1.part" && mv "$home/ready/$1.part" "$home/ready/$1"; }

packages_made_from() { # the sections of setup.cfg for tools do not count
  sed '/^\[tool:pytest]/q' "$repo/setup.cfg" | cat - "$repo"/conf/lock/*.txt | cksum
}

jars_made_from() { cat "$repo/conf/jars.xml" "$repo/conf/jars.sha256" | cksum; }

# The last word is of what app/train runs: another one makes the archive of an earlier version anew.
archive_made_from() { printf '%s\n' "$java_version" "$1" "$2" 'a query over rows' | cksum; }

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
  java_version=$("$java" -version 2>&1 | sed '/Picked up/d') || true # options of the environment
  version=$(sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' <<<"$java_version")
  [ -n "$version" ] ||
    fail "no Java at '$java'; install a JDK 17 or 21, or set JAVA_HOME to one${java_version:+: ${java_version%%$'\n'*}}"
  { [ "$version" -ge 17 ] && [ "$version" -le 25 ]; } ||
    fail "'$java' is Java $version, Spark 4.2 runs on 17 to 25; install a JDK 17 or 21, or set JAVA_HOME to one"
}

check_javac() {
  "${java}c" -version >/dev/null 2>&1 ||
    fail "no '${java}c': this Java has no compiler; install a JDK 17 or 21, or set JAVA_HOME to one"
}

# The lock is held until the descriptors close, so a killed set-up leaves none (macOS has no flock(1)).
lock() {
  { mkdir -p "$home/ready" "$home/log" "$home/jars" "$cache" && [ -w "$home" ] && [ -w "$home/ready" ] &&
    exec 8>"$home/lock" 9>"$cache/lock"; } 2>/dev/null ||
    fail "the set-up in $home is not complete for this checkout, and $(id -un 2>/dev/null || id -u) cannot write" \
      "$home or $cache: run ./spark-submit.sh --setup as the user who made it (where others start jobs, with" \
      "umask 022), or set REPLICATION_HOME and REPLICATION_CACHE to writable folders"
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

has_packages() { # KEY EXTRA...
  local extra
  [ -x "$venv/bin/python" ] || return 1
  for extra in "${@:2}"; do is_ready "$extra" "$1" || return 1; done
}

install_packages() { # EXTRA...
  local log=$home/log/pip before=$home/ready/before extra locks=()
  for extra in "$@"; do locks+=(-r "$repo/conf/lock/$extra.txt"); done
  say "installing Python packages into $venv (the first time takes minutes)"
  rm -rf "$before"
  if [ -f "$home/ready/spark" ] && [ -x "$venv/bin/python" ]; then
    mkdir "$before" # if killed from here on, the next set-up starts over
    for extra in spark dev bench docker site serve; do
      [ ! -f "$home/ready/$extra" ] || mv "$home/ready/$extra" "$before"
    done
  else
    "$python" -m venv --clear "$venv" >"$log" 2>&1 || fail "cannot create $venv: $(tail -n 1 "$log")"
  fi
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  local pip=("$venv/bin/python" -m pip install --quiet)
  # Without isolation, what has to be built is built by the setuptools of the lock.
  if ! { "${pip[@]}" --require-hashes -r "$repo/conf/lock/build.txt" &&
    "${pip[@]}" --require-hashes --no-build-isolation "${locks[@]}" &&
    "${pip[@]}" --no-deps --no-build-isolation -e "$repo"; } >"$log" 2>&1; then
    [ ! -d "$before" ] || mv "$before"/* "$home/ready"
    fail "cannot install the Python packages (no network, or the index lacks one or has another file than conf/lock?):" \
      "$(grep -i error "$log" | tail -n 1); all of it: $log"
  fi
}

fetch_jars() { # CONFIGURATION
  local log=$home/log/ivy-$1 part=$home/jars/$1.part ivy
  say "resolving the jars of '$1' in conf/jars.xml"
  ivy=$(echo "$venv"/lib/python*/site-packages/pyspark/jars/ivy-*.jar)
  rm -rf "$part"
  "$java" -jar "$ivy" ${IVY_SETTINGS:+-settings "$IVY_SETTINGS"} -ivy "$repo/conf/jars.xml" -confs "$1" \
    -types jar bundle -cache "$cache/ivy" \
    -retrieve "$part/[artifact]-[revision](-[classifier]).[ext]" >"$log" 2>&1 ||
    fail "cannot fetch the JVM jars of '$1' (no network, or a jar is missing from the mirror?); see $log"
}

jar_digests() { # CONFIGURATION [--renew]
  "$python" -I "$repo/replication/deploy/digests.py" "$repo/conf/jars.sha256" "$1" "$home/jars/$1.part" "${@:2}"
}

resolve_jars() { # CONFIGURATION
  local differs
  fetch_jars "$1"
  differs=$(jar_digests "$1") ||
    fail "the jars of '$1' are not those of conf/jars.sha256: $differs; after a change of conf/jars.xml run" \
      "conf/renew-locks.sh jars $1"
  rm -rf "$home/jars/$1"
  mv "$home/jars/$1.part" "$home/jars/$1"
}

# Not by their times: a jar that was copied beside newer sources may have the younger date.
our_jar_made_from() { cat "$our_jar" "$repo/conf/jars.xml" "$our_sources"/*.java "$our_sources"/*/*.java | cksum; }

is_compiled() { [ -f "$our_jar" ] && [ -r "$our_jar.sum" ] && [ "$(<"$our_jar.sum")" = "$(our_jar_made_from)" ]; }

compile_our_jar() {
  local log=$home/log/javac classes=$home/classes
  rm -rf "$classes"
  { "${java}c" --release 17 -Xlint:all,-path -d "$classes" \
    -cp "$home/jars/spark/*:$(echo "$venv"/lib/python*/site-packages/pyspark/jars)/*" \
    "$our_sources"/*.java "$our_sources"/*/*.java &&
    "${java%java}jar" --create --date=2020-01-01T00:00:00Z --file "$our_jar.part" -C "$classes" .; } \
    >"$log" 2>&1 || fail "cannot compile $our_sources: $(head -n 1 "$log"); all of it: $log"
  mv "$our_jar.part" "$our_jar"
  our_jar_made_from >"$our_jar.sum"
}

# A job starts in half the time with it, and starts without it all the same.
archive_classes() {
  local log=$home/log/train
  say "preparing a quicker start of Spark's JVM (half a minute, once)"
  "$venv/bin/python" -I -m replication.app.train >"$log" 2>&1 && return
  rm -rf "$home/class-archive"
  say "jobs will start slower: Java left no archive of Spark's classes; see $log"
}

# Debian's package with promtool, unpacked so that no service starts. Only tests use it.
fetch_prometheus() {
  local log=$home/log/prometheus part=$home/prometheus.part
  [ ! -x "$home/prometheus/usr/bin/promtool" ] || return 0
  say "fetching Debian's package of Prometheus"
  rm -rf "$part" && mkdir -p "$part"
  download() { (cd "$part" && apt-get download prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb); }
  if ! { download || { apt-get update && download; }; } >"$log" 2>&1; then # a fresh machine has no list of packages
    rm -rf "$part"
    fail "cannot fetch Debian's package prometheus (no apt-get or no mirror?): tests with Prometheus need it, or" \
      "prometheus and promtool on PATH; see $log"
  fi
  rm -rf "$home/prometheus" && mv "$part" "$home/prometheus"
}

set_up() { # [dev] [bench] [docker] [site] [serve] [CONFIGURATION of conf/jars.xml]...
  local extra extras=(spark) step packages jars archive missing=
  packages=$(packages_made_from)
  jars=$(jars_made_from)
  for extra in dev bench docker site serve; do
    if [ "$1" = "$extra" ]; then
      extras+=("$extra") && shift
    elif is_ready "$extra" "$packages"; then
      extras+=("$extra") # what is installed stays installed
    fi
  done
  find_java
  archive=$(archive_made_from "$packages" "$jars")
  has_packages "$packages" "${extras[@]}" || missing=1
  for step in "$@"; do is_ready "jars-$step" "$jars" || missing=1; done
  is_ready class-archive "$archive" || missing=1
  if ! is_compiled; then
    missing=1
    check_javac # before anything is downloaded
  fi
  [ -n "$missing" ] || return 0

  find_python
  lock
  if ! has_packages "$packages" "${extras[@]}"; then
    install_packages "${extras[@]}"
    for extra in "${extras[@]}"; do stamp "$extra" "$packages"; done
    rm -rf "$home/ready/before"
  fi
  for step in "$@"; do
    if ! is_ready "jars-$step" "$jars"; then
      resolve_jars "$step"
      stamp "jars-$step" "$jars"
    fi
  done
  exec 9>&- # the rest does not concern the cache, which other environments share
  is_compiled || compile_our_jar
  if ! is_ready class-archive "$archive"; then
    archive_classes
    stamp class-archive "$archive"
  fi
  exec 8>&-
}
