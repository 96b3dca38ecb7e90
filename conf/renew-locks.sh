#!/usr/bin/env bash
# conf/renew-locks.sh packages | jars [CONFIGURATION...]
# Run it after a change of conf/constraints.txt or setup.cfg (packages), or of conf/jars.xml (jars; by default all
# configurations but s3, which has 690 MB), look at the difference, and commit it.
#   packages  writes conf/lock/*.txt: what set-up installs, with the digests of all files of each release, for Python
#             3.10 and newer on every platform. It needs uv (pip install uv).
#   jars      writes conf/jars.sha256: the digest of each jar that conf/jars.xml resolves.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$repo/conf/set-up.sh"

packages() {
  local options=(--quiet --universal --python-version 3.10 --generate-hashes --no-annotate --no-header
    --constraints conf/constraints.txt --no-emit-package colorama --no-emit-package pywin32) extra # which are for Windows
  cd "$repo" && mkdir -p conf/lock
  echo setuptools | "${UV:-uv}" pip compile "${options[@]}" - -o conf/lock/build.txt >/dev/null
  for extra in spark dev bench docker site serve; do
    "${UV:-uv}" pip compile "${options[@]}" --extra "$extra" setup.cfg -o "conf/lock/$extra.txt" >/dev/null
  done
}

jars() { # CONFIGURATION...
  local configuration
  [ $# -gt 0 ] || set -- spark kafka mm2 java kdc msk hadoop
  find_java
  find_python
  lock
  for configuration in "$@"; do
    fetch_jars "$configuration"
    jar_digests "$configuration" --renew
    rm -rf "$home/jars/$configuration.part"
  done
}

case ${1:-} in
  packages) packages ;;
  jars) shift && jars "$@" ;;
  *) sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
