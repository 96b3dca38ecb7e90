#!/usr/bin/env bash
# Sets the project up and runs it; see --help. It needs only bash, Python >= 3.10 and a JDK.
set -euo pipefail

# A closed descriptor would be that of the next file opened, and lines of a log would be written there.
[ -e /dev/fd/0 ] || exec </dev/null
[ -e /dev/fd/1 ] || exec >/dev/null
[ -e /dev/fd/2 ] || exec 2>/dev/null

# What a shell's profile says of another Spark or Python: their code would be loaded in place of ours.
unset CDPATH PYTHONHOME PYTHONPATH PYTHONSTARTUP PYTHONWARNINGS PYTHONOPTIMIZE PYTHONINSPECT SPARK_HOME SPARK_REMOTE \
  SPARK_API_MODE SPARK_CONNECT_MODE_ENABLED SPARK_ENV_LOADED SPARK_PREPEND_CLASSES SPARK_SCALA_VERSION SPARK_TESTING \
  PYSPARK_SUBMIT_ARGS PYSPARK_GATEWAY_PORT PYSPARK_GATEWAY_SECRET PYSPARK_DRIVER_PYTHON PYSPARK_DRIVER_PYTHON_OPTS \
  REPLICATION_LOG_FORMAT REPLICATION_RUN REPLICATION_STOP_FILE REPLICATION_SCRIPT_PID
# Java takes file names in the locale's encoding, which is ASCII in the locale C.
case $(locale charmap 2>/dev/null) in ANSI_X3.4-1968 | US-ASCII | '') { export LC_ALL=C.UTF-8; } 2>/dev/null ;; esac

script=${BASH_SOURCE[0]}
while [ -L "$script" ]; do # macOS has no readlink -f
  link=$(readlink "$script")
  case $link in /*) script=$link ;; *) script=$(dirname "$script")/$link ;; esac
done
repo=$(cd -- "$(dirname -- "$script")" && pwd -P)
source "$repo/conf/set-up.sh" # also: home, venv, our_jar, say, fail

usage() {
  cat <<'HELP'
Usage: ./spark-submit.sh [--keep] [-- demo arguments]
         Demo: two local Kafka clusters, producers, the mirror, and a comparison of source and target.
         --keep leaves the clusters and the mirror running and prints how to connect.
       ./spark-submit.sh --config FILE [--flow 'A->B'] [--clusters A,B]
                         [--mode auto|realtime|microbatch|drain]
                         [--job mirror|replicate|checkpoints|heartbeats|metadata] [--log-format text|json]
                         [--log-level info|debug] [--standby] [--serve] [--dry-run] [-- spark-submit arguments]
         Replicates as configured in FILE (YAML or .properties). --dry-run only prints the command,
         asking no cluster: local[*] stands for the slots of a start.
         --clusters runs only flows that write to these clusters, as connect-mirror-maker.sh does with it.
         --job runs one part only; the default, mirror, runs all parts.
         --log-level debug also logs what only a developer needs.
         --standby waits while another process runs a flow, and takes over when that one ends.
         --serve shows the flows on a page and by REST while the job runs, on rest.port.
       ./spark-submit.sh --setup [dev] [bench] [docker] [site] [serve] [mm2] [java] [kdc] [hadoop] [s3]
                                 [msk] [prometheus]
         Only installs the Python packages, the JVM jars and our Java classes. dev adds the
         packages of the tests, bench those of the benchmarks' plots, docker those of tests whose brokers
         run in containers, site what builds the documents as a site, serve those of REST and pages,
         mm2 the jars of MirrorMaker 2 for tests and benchmarks,
         java the tools that check the Java classes, kdc the jars of a Kerberos
         server for tests, hadoop those of the tests on YARN, s3 those of a state.dir on S3, msk the
         login module of AWS_MSK_IAM, prometheus Debian's package of Prometheus for tests.
       ./spark-submit.sh --build FOLDER
         Writes what other machines need: the wheel, the jars, an archive of the Python packages, and
         the recipe of an image.

FILE holds the whole configuration of the mirror. These settings come from the environment:
  MASTER, DEPLOY_MODE   where Spark runs; default: this machine, slots for a few tasks of each flow; client
  DRIVER_MEMORY         default 2g
  PYTHON, JAVA_HOME     which Python (>= 3.10) and Java (17 to 25) to use; default: from PATH
  REPLICATION_HOME      the local environment; default .local beside this script
  REPLICATION_CACHE     downloaded jars; default ~/.cache/kafka-replication
  REPLICATION_SCRATCH   a job's files while it runs, some megabytes; default REPLICATION_HOME/scratch
  CLIENT_JARS           jars of login modules that FILE names, such as aws-msk-iam-auth; commas between them
  IVY_SETTINGS          an Ivy settings file, for a private mirror of the jars

Ctrl-C or SIGTERM stops a mirror cleanly; a second signal, or 60 s, kills it.
Exit codes: 0 a clean end; 2 invalid usage, configuration or set-up; others: replication/errors.py.
HELP
}

# A script's background job ignores SIGINT, and nohup ignores SIGHUP. Bash cannot trap ignored signals.
say_what_stops_it() {
  local command=("$venv/bin/python" -m replication stop "$config" ${flow[@]+"${flow[@]}"} \
    ${clusters[@]+"${clusters[@]}"}) keys=''
  [ "$job" = mirror ] || command+=(--job "$job")
  [[ $(trap -p INT) != *stops=* ]] || keys='Ctrl-C, '
  say "to stop this job: ${keys}kill $$, or:$(printf ' %q' "${command[@]}")"
}

# Java loads native libraries from its temporary folder, which a mount with noexec does not allow.
runs_programs() { # FOLDER
  printf '#!/bin/sh\n' >"$1/program" && chmod 700 "$1/program" && "$1/program"
}

# Where a job has its files while it runs, perhaps for months: systems delete what has been in /tmp for ten days.
make_run_folder() {
  local place problem='' places=("$home/scratch" "$cache/scratch" "${TMPDIR:-/tmp}")
  [ -z "${REPLICATION_SCRATCH:-}" ] || places=("$(absolute "$REPLICATION_SCRATCH")")
  for place in "${places[@]}"; do
    REPLICATION_RUN=$({ mkdir -p "$place" && mktemp -d "$place/replication-run-XXXXXX"; } 2>&1) ||
      { problem=${REPLICATION_RUN##*: } && continue; }
    export REPLICATION_RUN
    if runs_programs "$REPLICATION_RUN" 2>/dev/null; then
      [ "$place" != "${TMPDIR:-/tmp}" ] ||
        say "the job's files are in $place, which systems clean after days; REPLICATION_SCRATCH names another folder"
      return
    fi
    problem="programs cannot be run there, as on a file system mounted with noexec"
    rm -rf "$REPLICATION_RUN"
  done
  fail "a job needs a folder for its files and native libraries, and can use none of: ${places[*]} ($problem);" \
    "name another one in REPLICATION_SCRATCH"
}

# spark-submit passes no signals to Python, so the job watches for a file, and for the end of this
# script: a killed one can write no file.
run_until_stopped() {
  local pid code stops=0 deadline
  export REPLICATION_STOP_FILE=$REPLICATION_RUN/stop REPLICATION_SCRIPT_PID=$$
  # The trap writes the file, so that a signal before the wait counts, too.
  trap 'stops=$((stops + 1)); mkdir -p "$REPLICATION_RUN" && touch "$REPLICATION_STOP_FILE"' INT TERM HUP
  say_what_stops_it
  set -m # the job gets its own process group, which Ctrl-C does not reach
  "$@" </dev/null &
  pid=$!
  set +m
  code=0
  wait "$pid" || code=$?
  if [ "$stops" -gt 0 ]; then # the signal interrupted the wait; the job still runs
    say "stopping; a second signal, or 60 s, kills it"
    deadline=$((SECONDS + 60))
    while kill -0 "$pid" 2>/dev/null && [ "$stops" -lt 2 ] && [ "$SECONDS" -lt "$deadline" ]; do
      sleep 0.2 || true
    done
    if kill -0 "$pid" 2>/dev/null; then
      say "it did not end in time and was killed; starting it again is safe"
    fi
    kill -KILL -- "-$pid" 2>/dev/null || true # if it has ended, kills what it left running
    code=0
    { wait "$pid" || code=$?; } 2>/dev/null # otherwise bash would report the kill again
  fi
  exit "$code"
}

# The environment may be shared with another checkout, whose code it would load. Without PYTHONSAFEPATH, Python 3.11
# and newer would import modules that lie in the current folder.
own_code() { PYTHONSAFEPATH=1 PYTHONPATH=$repo "$venv/bin/python" -m "$@"; }

# As own_code, before a job starts: an error is the last line of the log.
check() { REPLICATION_LOG_FORMAT=${as_json:-text} own_code "$@"; }

failed() { # CODE of what failed; what it raises on purpose (replication/errors.py) has been said
  { [ "$1" -lt 2 ] || [ "$1" -gt 8 ]; } || has_ended=1
  exit "$1"
}

# Whatever this script and its job write becomes JSON, also lines of the JVM and of other programs. Standard output has
# a pipe of its own, because a long line of the job comes there in several parts.
write_json() {
  local candidate pipes
  for candidate in "${PYTHON:-python3}" python3 python3.1{0,1,2,3,4} ''; do
    [ -n "$candidate" ] || return 0 # the start fails without Python, and this script's own lines are JSON
    if "$candidate" -c '' 2>/dev/null; then break; fi
  done
  pipes=$(mktemp -d 2>/dev/null) && mkfifo "$pipes/out" "$pipes/err" 2>/dev/null || return 0
  (trap '' INT TERM HUP USR1 && exec "$candidate" -I "$repo/replication/deploy/json_lines.py" "$pipes/out" "$pipes/err") &
  json_writer=$!
  exec >"$pipes/out" 2>"$pipes/err"
  rm -rf "$pipes"
}

# Whatever ends a job badly, the last line of its log is the exit code and the cause.
at_exit() {
  local code=$?
  if [ "$code" != 0 ] && [ -z "$has_ended" ] && [ ! -e "${REPLICATION_RUN:-/nowhere}/ended" ]; then
    if [ "$code" -gt 128 ]; then
      say_end "$code" "the job was killed (SIG$(kill -l "$code" 2>/dev/null || true)): by a second signal or 60 s after" \
        "the first, by hand, or by the system or the JVM for lack of memory; starting it again is safe"
    else
      say_end "$code" "the job has ended without a cause of its own; the lines before this one are of what failed"
    fi
  fi
  [ -z "${REPLICATION_RUN:-}" ] || rm -rf "$REPLICATION_RUN"
  if [ -n "$json_writer" ]; then
    exec >/dev/null 2>&1
    while kill -USR1 "$json_writer"; do sleep 0.1; done # what the job has left running may still hold the pipes
  fi
}

mirror() { # SPARK_ARGUMENTS...; config, dry_run, flow, clusters, mode, log_format, log_level and standby are those of main
  local command quoted slots here=() deploy_mode=${DEPLOY_MODE:-client} master=${MASTER:-}
  local second=(--job "$job" ${flow[@]+"${flow[@]}"}) # refuses a second process before Spark starts
  [ -n "$dry_run" ] || [ "$deploy_mode" = cluster ] || here=(--here)
  if [ -z "$dry_run$master" ] && [ "$deploy_mode" != cluster ]; then
    slots=$(check replication slots "$config" --start "${second[@]}" ${clusters[@]+"${clusters[@]}"} \
      ${mode[@]+"${mode[@]}"} ${standby[@]+"${standby[@]}"} -- "$@") || failed $?
    master="local[$slots]"
  else
    if [ -n "$dry_run" ] || [ "$deploy_mode" = cluster ] || [ ${#standby[@]} -gt 0 ]; then second=(); fi
    check replication validate "$config" ${master:+--master "$master"} \
      ${clusters[@]+"${clusters[@]}"} ${second[@]+"${second[@]}"} ${here[@]+"${here[@]}"} >/dev/null ||
      failed $?
    master=${master:-local[*]} # how many slots it takes is a question to the clusters
  fi
  if [ -z "$dry_run" ] && [ "$deploy_mode" != cluster ]; then make_run_folder; fi
  quoted=$(check replication.deploy.submit --repository "$repo" --python "$venv/bin/python" \
    --job "$job" --config "$config" --master "$master" ${flow[@]+"${flow[@]}"} \
    ${clusters[@]+"${clusters[@]}"} ${mode[@]+"${mode[@]}"} ${log_format[@]+"${log_format[@]}"} \
    ${log_level[@]+"${log_level[@]}"} ${standby[@]+"${standby[@]}"} -- "$@") || failed $?
  eval "command=($quoted)"
  if [ -n "$dry_run" ]; then
    printf '%s\n' "$quoted"
  elif [[ " ${command[*]} " == *' --deploy-mode cluster '* ]]; then
    # The driver runs elsewhere: ending this script does not end it.
    [ -z "${REPLICATION_RUN:-}" ] || rm -rf "$REPLICATION_RUN"
    exec "$venv/bin/python" "$repo/replication/deploy/follow.py" "${command[@]}"
  else
    [ -z "$serve" ] || start_serve
    run_until_stopped "${command[@]}"
  fi
}

# Shows the flows while the job runs. The job goes on without it.
start_serve() {
  (trap '' INT HUP && PYTHONSAFEPATH=1 PYTHONPATH=$repo REPLICATION_LOG_FORMAT=${as_json:-text} \
    exec "$venv/bin/python" -m replication serve "$config" --until-ended $$) </dev/null &
}

wrong() {
  [ -n "$as_json" ] || usage >&2
  fail "$*"
}

is_json() { # ARGUMENTS...
  local word before=''
  for word; do
    case $before$word in
      --) break ;;
      --log-format=json | --log-formatjson) return 0 ;;
    esac
    [ "$word" = --log-format ] && before=$word || before=''
  done
  return 1
}

main() {
  as_json='' has_ended='' json_writer=''
  if is_json "$@"; then as_json=json; fi
  local config='' dry_run='' serve='' job=mirror keep=() flow=() clusters=() mode=() log_format=() log_level=()
  local standby=()
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage && exit ;;
      --setup)
        shift
        set_up_only "$@"
        exit
        ;;
      --build)
        [ $# -eq 2 ] || wrong "--build needs one folder"
        set_up spark
        own_code replication.deploy.artifacts "$repo" "$2"
        exit
        ;;
      --keep) keep=(--keep) && shift ;;
      --dry-run) dry_run=1 && shift ;;
      --standby) standby=(--standby) && shift ;;
      --serve) serve=serve && shift ;;
      --config | --flow | --clusters | --mode | --job | --log-format | --log-level)
        [ $# -gt 1 ] || wrong "$1 needs a value"
        case $1 in
          --config) config=$2 ;;
          --job) job=$2 ;;
          --flow) flow+=("$1" "$2") ;;
          --clusters) clusters=("$1" "$2") ;;
          --mode) mode=("$1" "$2") ;;
          --log-format) log_format=("$1" "$2") ;;
          --log-level) log_level=("$1" "$2") ;;
        esac
        shift 2
        ;;
      --) shift && break ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      *) wrong "unknown argument '$1'" ;;
    esac
  done
  case $job in
    mirror | replicate | checkpoints | heartbeats | metadata) ;;
    *) wrong "--job is mirror, replicate, checkpoints, heartbeats or metadata, not '$job'" ;;
  esac
  case ${log_format[1]:-text} in
    text | json) ;;
    *) wrong "--log-format is text or json, not '${log_format[1]}'" ;;
  esac
  case ${log_level[1]:-info} in
    info | debug) ;;
    *) wrong "--log-level is info or debug, not '${log_level[1]}'" ;;
  esac
  if [ -n "$config" ]; then
    [ ${#keep[@]} -eq 0 ] || wrong "--keep belongs to the demo, not to --config"
    trap at_exit EXIT
    [ -z "$as_json" ] || [ -n "$dry_run" ] || write_json
    set_up $serve spark
    mirror "$@"
  else
    [ "$dry_run$serve${#flow[@]}${#clusters[@]}${#mode[@]}${#log_format[@]}${#log_level[@]}${#standby[@]}" = 000000 ] ||
      wrong "--flow, --clusters, --mode, --log-format, --log-level, --standby, --serve and --dry-run need --config FILE"
    set_up spark kafka
    exec "$venv/bin/python" -m replication demo ${keep[@]+"${keep[@]}"} "$@"
  fi
}

set_up_only() { # [dev] [bench] [docker] [site] [serve] [mm2] [java] [kdc] [hadoop] [s3] [msk] [prometheus]
  local dev='' bench='' docker='' site='' serve='' prometheus='' jars=(spark kafka)
  while [ $# -gt 0 ]; do
    case $1 in
      dev) dev=dev ;;
      bench) bench=bench ;;
      docker) docker=docker ;;
      site) site=site ;;
      serve) serve=serve ;;
      prometheus) prometheus=1 ;;
      mm2 | java | kdc | hadoop | s3 | msk) jars+=("$1") ;;
      *) wrong "--setup takes dev, bench, docker, site, serve, mm2, java, kdc, hadoop, s3, msk and prometheus, not '$1'" ;;
    esac
    shift
  done
  set_up $dev $bench $docker $site $serve "${jars[@]}"
  [ -z "$prometheus" ] || fetch_prometheus
  # Now, because whoever starts a job may not be allowed to write here.
  own_code replication.deploy.archives "$repo"
}

main "$@"
