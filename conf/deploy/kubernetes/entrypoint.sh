#!/usr/bin/env bash
# What the image does: "driver ..." and "executor" are what Spark on Kubernetes asks for; a job's name
# starts that job in this pod, with executors in pods of their own if MASTER says so.
set -euo pipefail
: "${SPARK_HOME:=/opt/spark}" "${REPLICATION_FILES:=/opt/replication}"
export SPARK_HOME

# OpenShift runs the image as a user of its own choice, whose number has no name, in the group 0. Hadoop needs a name.
if ! id -un >/dev/null 2>&1; then
  [ "${HOME:-/}" != / ] && [ -w "$HOME" ] || export HOME=/tmp
  if [ -w /etc/passwd ]; then
    echo "replication:x:$(id -u):$(id -g):replication:$HOME:/bin/bash" >>/etc/passwd
  fi
fi

# spark-submit passes no signal on to Python. A pod's SIGTERM becomes the file that the job looks for.
run_until_stopped() {
  local pid code=0 stopped=''
  REPLICATION_STOP_FILE=$(mktemp -d)/stop
  export REPLICATION_STOP_FILE
  trap 'stopped=1; touch "$REPLICATION_STOP_FILE"' TERM INT
  set -m # a group of its own, which the container's signals do not reach
  "$@" </dev/null &
  pid=$!
  set +m
  wait "$pid" || code=$?
  while [ -n "$stopped" ] && kill -0 "$pid" 2>/dev/null; do # the signal has interrupted the wait
    code=0
    wait "$pid" || code=$?
  done
  exit "$code"
}

# As spark-submit.sh has it: a driver without memory ends, and one that copies the records itself has
# the parallel collector, unless another one is chosen: a JVM with two does not start.
java_options() { # ARGUMENTS... of the job
  local chosen="${JAVA_TOOL_OPTIONS:-} ${JDK_JAVA_OPTIONS:-} ${_JAVA_OPTIONS:-} ${SPARK_SUBMIT_OPTS:-}"
  [ -z "${SPARK_SETTINGS:-}" ] || chosen+=$(<"$SPARK_SETTINGS")
  [[ ${MASTER:-} != local* || $chosen == *-XX:+Use*GC* ]] || printf %s '-XX:+UseParallelGC '
  [[ " $* " != *' --log-format'[\ =]'json '* ]] || printf %s '-Dreplication.log.format=json '
  printf %s "-XX:OnOutOfMemoryError='kill -9 %p' -Dlog4j2.configurationFile=$REPLICATION_FILES/log4j2.properties"
}

case ${1:-} in
  driver) # spark-submit --deploy-mode cluster, and the operator
    shift
    run_until_stopped "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  executor)
    options=()
    while IFS= read -r option; do
      options+=("${option#*=}")
    done < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n)
    exec tini -s -- java "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$SPARK_HOME/jars/*:$PWD" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  mirror | replicate | checkpoints | heartbeats | metadata)
    job=$1 && shift
    place=() # where executors reach the driver; POD_* come from the manifest
    # without executors, Spark listens inside the pod only
    [[ -z ${POD_IP:-} || ${MASTER:-} == local* ]] || place+=(--conf "spark.driver.host=$POD_IP" --conf spark.driver.bindAddress=0.0.0.0)
    [ -z "${POD_NAME:-}" ] || place+=(--conf "spark.kubernetes.driver.pod.name=$POD_NAME")
    [ -z "${SPARK_SETTINGS:-}" ] || place+=(--properties-file "$SPARK_SETTINGS")
    run_until_stopped "$SPARK_HOME/bin/spark-submit" --deploy-mode client --name "$job" \
      --master "${MASTER:-k8s://https://kubernetes.default.svc}" --driver-memory "${DRIVER_MEMORY:-2g}" \
      --driver-java-options "$(java_options "$@")" \
      ${place[@]+"${place[@]}"} "$REPLICATION_FILES/jobs/$job.py" "$@"
    ;;
  '')
    echo "entrypoint.sh: name a job, such as: mirror --config FILE; or a command: replication plan FILE" >&2
    exit 2
    ;;
  *) exec "$@" ;; # such as: replication plan FILE
esac
