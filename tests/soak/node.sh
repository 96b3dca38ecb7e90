#!/usr/bin/env bash
# A Kubernetes of one node on this machine, as root: node.sh up | down.
set -euo pipefail
: "${K8S_BIN:?the folder of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet}"
: "${K8S_RUN:?a folder for its state}"
node=10.88.0.1 # the bridge of the pods, and this machine's address for them
api=10.96.0.1  # the service kubernetes.default.svc
export KUBECONFIG=$K8S_RUN/kubeconfig

start() { # NAME COMMAND...
  local name=$1 && shift
  setsid "$@" >"$K8S_RUN/log/$name" 2>&1 </dev/null &
  echo $! >"$K8S_RUN/pid/$name"
}

until_true() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1)) && shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { echo "not in time: $*" >&2; exit 1; }
    sleep 0.5
  done
}

packet_rules() { # COMMAND: -C asks for a rule, -I adds it, -D deletes it
  # In place of kube-proxy: the API server's is the only service that pods of the mirror use.
  iptables -t nat "$1" PREROUTING -d $api -p tcp --dport 443 -j DNAT --to-destination $node:6443 &&
    iptables "$1" FORWARD -i cni0 -j ACCEPT && iptables "$1" FORWARD -o cni0 -j ACCEPT
}

bridge() {
  ip link add cni0 type bridge 2>/dev/null || true
  ip address replace $node/24 dev cni0 && ip link set cni0 up
  sysctl -qw net.ipv4.ip_forward=1
  packet_rules -C 2>/dev/null || packet_rules -I
  cat >"$K8S_RUN/cni/10-bridge.conflist" <<'JSON'
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
}

container_runtime() {
  cat >"$K8S_RUN/containerd.toml" <<TOML
version = 2
root = "$K8S_RUN/containerd"
state = "$K8S_RUN/containerd-state"
[grpc]
  address = "$K8S_RUN/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true # root without CAP_SYS_RESOURCE may not lower it
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${CNI_BIN:-/usr/lib/cni}"
    conf_dir = "$K8S_RUN/cni"
TOML
  start containerd containerd -c "$K8S_RUN/containerd.toml"
}

control_plane() {
  local pki=$K8S_RUN/pki
  [ -f "$pki/sa.key" ] || openssl genrsa -out "$pki/sa.key" 2048 2>/dev/null
  local token
  token=$(openssl rand -hex 16)
  echo "$token,admin,admin,system:masters" >"$pki/tokens"
  cat >"$KUBECONFIG" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://$node:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
YAML
  start etcd "$K8S_BIN/etcd" --data-dir "$K8S_RUN/etcd"
  start apiserver "$K8S_BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --cert-dir "$pki" \
    --bind-address $node --secure-port 6443 --token-auth-file "$pki/tokens" --authorization-mode RBAC \
    --kubelet-preferred-address-types InternalIP \
    --service-cluster-ip-range 10.96.0.0/24 --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$pki/sa.key" --service-account-signing-key-file "$pki/sa.key"
  until_true 120 kubectl get --raw /readyz
  start controller-manager "$K8S_BIN/kube-controller-manager" --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --service-account-private-key-file "$pki/sa.key" --root-ca-file "$pki/apiserver.crt" --bind-address 127.0.0.1
  start scheduler "$K8S_BIN/kube-scheduler" --kubeconfig "$KUBECONFIG" --leader-elect=false --bind-address 127.0.0.1
}

node() {
  cat >"$K8S_RUN/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$K8S_RUN/containerd.sock
evictionHard: {}
imageGCHighThresholdPercent: 100
YAML
  start kubelet "$K8S_BIN/kubelet" --kubeconfig "$KUBECONFIG" --config "$K8S_RUN/kubelet.yaml" \
    --root-dir "$K8S_RUN/kubelet" --hostname-override node1 --node-ip $node
  until_true 120 kubectl wait --for condition=Ready node/node1 --timeout 1s
}

up() {
  mkdir -p "$K8S_RUN"/{cni,log,pid,pki} && chmod 700 "$K8S_RUN/pki"
  bridge && container_runtime && control_plane && node
  kubectl get nodes
}

containers() { ctr -a "$K8S_RUN/containerd.sock" -n k8s.io "$@"; }

down() {
  local name task mount
  for name in kubelet scheduler controller-manager apiserver etcd; do ended "$name"; done
  for task in $(containers tasks ls -q); do containers tasks rm -f "$task" >/dev/null 2>&1 || true; done
  ended containerd
  for mount in $(awk -v folder="$K8S_RUN/" 'index($2, folder) == 1 {print $2}' /proc/mounts | sort -r); do
    umount "$mount"
  done
  packet_rules -D 2>/dev/null || true
  ip link delete cni0
}

ended() { # NAME: ends what start has started
  local pid
  [ -f "$K8S_RUN/pid/$1" ] || return 0
  pid=$(<"$K8S_RUN/pid/$1") && rm "$K8S_RUN/pid/$1"
  kill "$pid" 2>/dev/null || return 0
  until_true 30 eval "! kill -0 $pid"
}

"$1"
