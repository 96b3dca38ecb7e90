#!/usr/bin/env bash
# tests/java/style.sh [--write]: holds all Java files to google-java-format and compiles the product's with Error
# Prone, whose warnings are errors here. --write formats the files instead. Set-up must have run: --setup dev java.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
home=${REPLICATION_HOME:-$PWD/.local}
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
files=(replication/jvm/{,*/}*.java tests/java/*.java tests/java/junit/*.java)

opened=() # both tools use classes that the compiler keeps to itself
for package in api code comp file main model parser processing tree util; do
  opened+=("--add-exports=jdk.compiler/com.sun.tools.javac.$package=ALL-UNNAMED")
done
opened+=(--add-opens=jdk.compiler/com.sun.tools.javac.{code,comp}=ALL-UNNAMED)

formatter() { "$java" "${opened[@]}" -jar "$home"/jars/java/google-java-format-*-all-deps.jar "$@" "${files[@]}"; }

lint() {
  local classes processors pyspark off
  # What comes last and is empty is to be dropped; the callback of a send gets its failure.
  off=(-Xep:StringSplitter:OFF -Xep:FutureReturnValueIgnored:OFF)
  classes=$(mktemp -d)
  processors=$(printf '%s:' "$home"/jars/java/*.jar)
  pyspark=$(echo "$home"/venv/lib/python*/site-packages/pyspark/jars)
  "${java}c" "${opened[@]/#/-J}" --release 17 -Xlint:all,-path -Werror -d "$classes" -cp "$home/jars/spark/*:$pyspark/*" \
    -XDcompilePolicy=simple --should-stop=ifError=FLOW -processorpath "$processors" "-Xplugin:ErrorProne ${off[*]}" \
    replication/jvm/{,*/}*.java
  rm -rf "$classes"
}

if [ "${1:-}" = --write ]; then
  formatter --replace
  exit
fi
unformatted=$(formatter --dry-run)
[ -z "$unformatted" ] || { printf 'run tests/java/style.sh --write, which formats:\n%s\n' "$unformatted" && exit 1; }
lint
