#!/usr/bin/env bash
# HDFS of two processes on the bridge of tests/soak/node.sh, for the state of pods: hdfs.sh up | get FOLDER | down.
# Its jars are those of ./spark-submit.sh --setup hadoop.
set -euo pipefail
: "${HDFS_RUN:?a folder for its files}"
home=${REPLICATION_HOME:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.local}
node=10.88.0.1
user=spark # of the image

property() { printf '<property><name>%s</name><value>%s</value></property>' "$1" "$2"; }

settings() {
  mkdir -p "$HDFS_RUN/conf"
  {
    echo '<configuration>'
    property fs.defaultFS "hdfs://$node:8020"
    echo '</configuration>'
  } >"$HDFS_RUN/conf/core-site.xml"
  {
    echo '<configuration>'
    property dfs.namenode.name.dir "$HDFS_RUN/name"
    property dfs.datanode.data.dir "$HDFS_RUN/data"
    property dfs.replication 1
    property dfs.namenode.http-address 127.0.0.1:9870
    property dfs.namenode.datanode.registration.ip-hostname-check false
    property dfs.datanode.hostname "$node"
    property dfs.datanode.address "$node:9866" # the network policy lets pods reach this and 8020
    property dfs.datanode.ipc.address 127.0.0.1:9867
    property dfs.datanode.http.address 127.0.0.1:9864
    echo '</configuration>'
  } >"$HDFS_RUN/conf/hdfs-site.xml"
}

hadoop() { # CLASS ARGUMENTS...
  local spark
  spark=$(echo "$home"/venv/lib/python*/site-packages/pyspark/jars)
  exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 --add-opens java.base/java.lang=ALL-UNNAMED \
    -cp "$HDFS_RUN/conf:$home/jars/hadoop/*:$spark/*" "org.apache.hadoop.$@"
}

start() { # NAME CLASS
  hadoop "hdfs.server.$2" >"$HDFS_RUN/$1.log" 2>&1 </dev/null &
  echo $! >"$HDFS_RUN/$1.pid"
}

listens() { # SECONDS: whether the name node does within that time
  local deadline=$((SECONDS + $1))
  until (: <"/dev/tcp/$node/8020") 2>/dev/null; do
    [ $SECONDS -lt $deadline ] && kill -0 "$(<"$HDFS_RUN/namenode.pid")" && sleep 0.5 || return 1
  done
}

up() {
  settings
  [ -d "$HDFS_RUN/name/current" ] ||
    (hadoop hdfs.server.namenode.NameNode -format -nonInteractive) >"$HDFS_RUN/format.log" 2>&1
  start namenode namenode.NameNode
  listens 120 || { tail "$HDFS_RUN/namenode.log" >&2 && exit 1; } # a client does not wait for it
  start datanode datanode.DataNode
  (hadoop fs.FsShell -mkdir -p /replication)
  (hadoop fs.FsShell -chown "$user" /replication)
}

get() { hadoop fs.FsShell -get /replication "$1"; } # a copy of the state directory

down() { kill "$(<"$HDFS_RUN/datanode.pid")" "$(<"$HDFS_RUN/namenode.pid")"; } # the files stay

"$@"
