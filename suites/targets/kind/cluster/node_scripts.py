"""POSIX shell scripts that run in the container of a node. Times are Unix seconds of the node's clock.

`systemctl restart` starts a killed kubelet: `start` would wait for the RestartSec of the unit. Files change while no
kubelet runs, so no kubelet reads half a change. Copies are kept outside the manifests folder.

While the API server is stopped, the scheduler and the controllers are paused (SIGSTOP). Without it they would exit, and
the kubelet would wait 10 s or more before it restarts them.
"""

from drahealth.suites.targets.kind.cluster.node_files import (
    API_SERVER,
    API_SERVER_MANIFEST,
    AUDIT_POLICY,
    KUBELET_CONFIG,
)

STATE = "/etc/kubernetes/drahealth"
"""It holds `staged`, new files; `original`, the files before the first change; and `away`, the manifest of the API
server while that is stopped."""
LEADERS = ("kube-scheduler", "kube-controller-manager")
"""The components that watch the API server and have a Lease of the same name."""
STAGED_MANIFEST = f"{STATE}/staged/{API_SERVER}.yaml"
STAGED_CONFIG = f"{STATE}/staged/kubelet.yaml"


def _each(signal: str) -> str:
    return "\n".join(f"signal {signal} {name}" for name in LEADERS)


_PARTS = f"""
set -eu
end_kubelet() {{
  pid=$(systemctl show -p MainPID --value kubelet)
  [ "${{pid:-0}}" = 0 ] && return
  kill -9 "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}}
signal() {{
  for process in /proc/[0-9]*; do
    name=$(tr '\\0' '\\n' 2>/dev/null < "$process/cmdline" | head -n 1)
    if [ "${{name##*/}}" = "$2" ]; then kill -s "$1" "${{process#/proc/}}" 2>/dev/null || true; fi
  done
  return 0
}}
end_api_server() {{
{_each("STOP")}
  signal KILL {API_SERVER}
}}
start_kubelet() {{
  date +%s.%N
  systemctl restart kubelet
}}
put() {{
  [ -e "{STATE}/staged/$1" ] || return 1
  if ! [ -e "{STATE}/original/$1" ]; then
    cp -p "$2" "{STATE}/original/.$1"
    mv "{STATE}/original/.$1" "{STATE}/original/$1"
  fi
  mv "{STATE}/staged/$1" "$2"
}}
give() {{
  [ -e "{STATE}/away/{API_SERVER}.yaml" ] || return 1
  mv "{STATE}/away/{API_SERVER}.yaml" {API_SERVER_MANIFEST}
}}
back() {{
  [ -e "{STATE}/original/$1" ] || return 1
  mv "{STATE}/original/$1" "$2"
}}
"""

RESTART = f"{_PARTS}end_kubelet\nstart_kubelet\n"
"""Kills the kubelet and starts it; prints the time of the start."""

STOP = f"{_PARTS}end_kubelet\nsystemctl stop kubelet\n"
"""Kills the kubelet, and keeps its unit from starting it again."""

START = f"{_PARTS}systemctl is-active --quiet kubelet || start_kubelet\n"
"""Starts a stopped kubelet and prints the time; prints nothing if it runs."""

APPLY = f"""{_PARTS}
mkdir -p {STATE}/original
end_kubelet
if put {API_SERVER}.yaml {API_SERVER_MANIFEST}; then end_api_server; fi
put kubelet.yaml {KUBELET_CONFIG} || true
start_kubelet
"""
"""Installs the staged files, kills the components that read the old ones, starts the kubelet, and prints the time."""

END_LEADERS = f"{_PARTS}\n{_each('KILL')}\n"
"""Kills the paused components; the kubelet restarts them."""

TAKE_API_SERVER = f"""{_PARTS}
mkdir -p {STATE}/away
if [ -e {API_SERVER_MANIFEST} ]; then mv {API_SERVER_MANIFEST} {STATE}/away/{API_SERVER}.yaml; fi
for _ in 1 2 3 4 5 6 7 8 9 10; do end_api_server; sleep 0.1; done
"""
"""Removes the manifest of the API server and kills it, until the kubelet has noticed the missing manifest."""

GIVE_API_SERVER = f"""{_PARTS}
if give; then echo given; fi
"""
"""Restores the manifest and prints that; prints nothing if it was not removed."""

RESTORE = f"""{_PARTS}
rm -rf {STATE}/staged
give || true
if [ -e {STATE}/original/{API_SERVER}.yaml ] || [ -e {STATE}/original/kubelet.yaml ]; then
  end_kubelet
  if back {API_SERVER}.yaml {API_SERVER_MANIFEST}; then end_api_server; fi
  back kubelet.yaml {KUBELET_CONFIG} || true
  start_kubelet
else
  systemctl is-active --quiet kubelet || start_kubelet
fi
rm -rf {STATE} {AUDIT_POLICY}
"""
"""Restores the original files and starts a stopped kubelet. Prints the time of the start, or nothing without a
change."""

WRITE = """set -eu
umask 077
mkdir -p "$(dirname "$1")"
cat > "$1.new"
mv "$1.new" "$1"
"""
"""Writes standard input to the path that is its argument, atomically. No kubelet may read that folder."""

KUBELET_LOG = "journalctl -u kubelet -n 20 --no-pager -o cat 2>&1"
API_SERVER_LOG = f"""
newest=$(ls -t /var/log/pods/kube-system_{API_SERVER}-*/{API_SERVER}/*.log 2>/dev/null | head -n 1)
[ -n "$newest" ] && tail -n 20 "$newest" | cut -d ' ' -f 4-
"""

AUDIT_LOG = f"""
for log in /var/log/pods/kube-system_{API_SERVER}-*/{API_SERVER}/*.log*; do
  if [ -e "$log" ]; then cat "$log"; fi
done | awk -v wanted="\\"namespace\\":\\"$1\\"" '
$2 != "stdout" {{ next }}
{{ whole = begun substr($0, index($0, " " $3 " ") + 3) }}
$3 == "P" {{ begun = whole; next }}
{{ begun = ""; if (index(whole, wanted)) print whole }}'
"""
"""Prints the entries of the audit log that name the namespace that is its argument.

The log is the standard output of the API server. The container runtime splits long lines: `P` marks a part that
continues in the next line. The kubelet keeps the logs of the last two containers.
"""
