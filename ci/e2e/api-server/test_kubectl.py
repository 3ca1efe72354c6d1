"""kubectl on the reference and on a real node: the same commands print the same, but for the listed differences."""

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drahealth.suites.unit.endings import PATIENCE

FILES = {
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: team, labels: {app: train}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: training}
""",
    "gpu.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: team}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: job, namespace: team, labels: {app: job}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: training, resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
""",
    "settings.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team, labels: {part: settings}}
data: {mode: one, size: "1"}
""",
    "changed.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team, labels: {part: settings}}
data: {mode: two}
""",
    "template.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
""",
    "racks.yaml": """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: racks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Rack, plural: racks, singular: rack, shortNames: [ra], categories: [hardware]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status: {type: object, properties: {free: {type: integer}}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Free, type: integer, jsonPath: .status.free, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
""",
    "rack.yaml": """
apiVersion: example.com/v1
kind: Rack
metadata: {name: one, namespace: team}
spec: {size: 2}
""",
    "set.yaml": """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set, namespace: team}
spec:
  replicas: 1
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: training}]}
""",
    "unknown.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: unknown, namespace: team}
dat: {mode: one}
""",
}

COMMANDS = """
version
cluster-info
create namespace team
get namespace team
get namespaces default kube-system
create -f settings.yaml
create -f settings.yaml
get configmap settings -n team
get configmap settings -n team -o jsonpath={.data}
get configmap settings -n team -o name
get configmap settings -n team -o custom-columns=NAME:.metadata.name,MODE:.data.mode
get configmap settings -n team -o go-template={{.data.mode}}
get configmap settings -n team -o yaml
get configmap none -n team
get nothing -n team
apply -f changed.yaml
diff -f settings.yaml
apply -f settings.yaml
apply -f settings.yaml
apply -f changed.yaml --dry-run=server
apply -f changed.yaml --dry-run=client
get configmap settings -n team -o jsonpath={.data}
apply -f changed.yaml --server-side
apply -f changed.yaml --server-side --force-conflicts
apply -f settings.yaml --server-side --field-manager=other
apply -f settings.yaml --server-side --field-manager=other --force-conflicts
apply -f unknown.yaml
create -f unknown.yaml --validate=false
delete configmap unknown -n team
label configmap settings -n team color=red
label configmap settings -n team color=blue
label configmap settings -n team color=blue --overwrite
label configmap settings -n team color-
get configmaps -n team -l part=settings --show-labels
annotate configmap settings -n team note=kept
patch configmap settings -n team --type=merge -p {"data":{"merge":"1"}}
patch configmap settings -n team --type=strategic -p {"data":{"strategic":"1"}}
patch configmap settings -n team --type=json -p [{"op":"remove","path":"/data/merge"}]
patch configmap settings -n team --type=json -p [{"op":"test","path":"/data/none","value":"1"}]
get configmap settings -n team -o jsonpath={.data}
edit configmap settings -n team
get configmap settings -n team -o jsonpath={.data.mode}
replace -f settings.yaml
replace --force -f settings.yaml
describe configmap settings -n team
create configmap a -n team --from-literal=x=1
create secret generic b -n team --from-literal=x=1
label configmap a -n team part=many
get configmaps -n team -l part --chunk-size=1
get configmap,secret -n team -l part
get secrets -n team
delete configmap -n team -l part
delete secret b -n team --ignore-not-found
delete secret b -n team --ignore-not-found
delete secret b -n team
apply -f pod.yaml
wait pod/train -n team --for=condition=Ready --timeout=120s
get pods -n team
get pods -n team -o wide
get pods -A -l app=train
get pods -n team --field-selector=status.phase=Running
get pods -n team --field-selector=status.phase=Failed
get pods -n team --field-selector=spec.none=x
get pods -n team -l app=(
get pod train -n team -o jsonpath={.status.phase}
get pods -n team --sort-by=.metadata.name --no-headers
set image pod/train -n team main=other
get pod train -n team -o jsonpath={.spec.containers[0].image}
patch pod train -n team -p {"spec":{"nodeName":"none"}}
apply -f gpu.yaml
wait pod/job -n team --for=jsonpath={.status.phase}=Running --timeout=120s
wait pod/job -n team --for=jsonpath={..health}=Healthy --timeout=120s
get resourceclaims -n team
get resourceclaim gpu -n team -o jsonpath={.status.allocation.devices.results[0].driver}
get resourceslices
get deviceclasses
get deviceclass gpu.example.com -o jsonpath={.spec}
apply -f template.yaml
get resourceclaimtemplates -n team
delete -f template.yaml
get nodes
get node drahealth -o name
describe pod job -n team
describe resourceclaim gpu -n team
create poddisruptionbudget few -n team --selector=app=train --min-available=1
get poddisruptionbudget few -n team
cordon drahealth
get nodes
drain drahealth --force --ignore-daemonsets --pod-selector=app=train --timeout=2s
delete poddisruptionbudget few -n team
drain drahealth --force --ignore-daemonsets --pod-selector=app=train --timeout=120s
uncordon drahealth
taint node drahealth example.com/a=b:NoSchedule
taint node drahealth example.com/a-
delete pod job -n team --grace-period=0 --force
wait pod/job -n team --for=delete --timeout=120s
delete pod none -n team
apply -f pod.yaml
delete pod train -n team --now
delete resourceclaim --all -n team
apply -f racks.yaml
wait customresourcedefinition/racks.example.com --for=condition=Established --timeout=120s
api-resources --api-group=example.com --cached=false
apply -f rack.yaml
get racks -n team
get ra one -n team -o wide
get hardware -n team
patch rack one -n team --subresource=status --type=merge -p {"status":{"free":1}}
get rack one -n team -o jsonpath={.status.free}
apply -f rack.yaml
label rack one -n team color=red
delete rack one -n team
delete -f racks.yaml
get racks -n team
create -f set.yaml
wait replicaset/set -n team --for=create --timeout=120s
wait pods -n team -l app=set --for=create --timeout=120s
get replicaset set -n team -o jsonpath={.spec.replicas}
delete replicaset set -n team --cascade=orphan
get pods -n team -l app=set -o jsonpath={.items[*].metadata.ownerReferences}
delete pods -n team -l app=set --now
create -f settings.yaml --edit=false -o jsonpath={.metadata.name}
get -f settings.yaml -o name
apply view-last-applied -f changed.yaml
create service clusterip web -n team --tcp=80
get services -n team --no-headers -o custom-columns=NAME:.metadata.name,TYPE:.spec.type
create serviceaccount robot -n team
get serviceaccount robot -n team
get leases -n team
get events -n team --field-selector=reason=None
auth can-i create pods -n team
auth can-i get pods --subresource=log
api-resources --api-group=resource.k8s.io --namespaced
api-resources --api-group=policy
api-resources --api-group=coordination.k8s.io -o name
get --raw /api/v1/namespaces/team/configmaps/none
explain configmap.data
create -f settings.yaml --dry-run=client -o name
create -f settings.yaml --dry-run=server -o name
rollout status configmap/settings -n team
delete namespace team --timeout=120s
""".strip().splitlines()

DIFFERENT = {
    "version": "the reference has a version of its own",
    "get pods -n team -l app=(": "the error of the reference lists the possible forms",
    'patch pod train -n team -p {"spec":{"nodeName":"none"}}': "the error of the reference does not show both specs",
    "describe resourceclaim gpu -n team": "the scheduler of the reference writes no allocationTimestamp",
    "describe pod job -n team": "a kubelet records more Events, and a Pod of the reference has no projected volumes",
    "get nodes": "the Node of the reference has no version of a kubelet",
    "explain configmap.data": "the schemas of the reference have no descriptions",
}
"""The commands whose outputs differ, each with the reason."""

_NORMAL = (
    (r"\b(\d+[smhdy])+(?=\s|$)", "AGE"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
    (r'(resourceVersion"?: |Resource Version: +)"?\d+"?', r"\1REVISION"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+0000", "TIME"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} [\d:]+ \+0000", "TIME"),
    (r"https://127\.0\.0\.1:\d+", "URL"),
    (r"/tmp/\S+", "FILE"),
    (r"(drahealth-gpu\.example\.com-)\w+", r"\1SLICE"),
    (r"\bset-\w{5}\b", "POD"),
    (r"[ \t]+", " "),
)


def normal(text: str) -> str:
    """The output without what differs in each run."""
    for pattern, replacement in _NORMAL:
        text = re.sub(pattern, replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def run(program: Path, kubeconfig: Path, folder: Path, command: str) -> str:
    """The exit code and the output of a command. A word of a command has no spaces."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "KUBE_EDITOR": "sed -i s/one/edited/"}
    words = [str(program), *command.split(), f"--cache-dir={folder}/cache"]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return f"exit code {done.returncode}\n{normal(done.stdout)}\n{normal(done.stderr)}"


def outputs(program: Path, kubeconfig: Path, folder: Path) -> list[str]:
    """The outputs of all commands, in order."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return [run(program, kubeconfig, folder, command) for command in COMMANDS]


@pytest.fixture(scope="module")
def compared(program: Path, reference: Path, real: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The outputs on both servers; one after the other would take twice the time."""
    folder = tmp_path_factory.mktemp("kubectl")
    with ThreadPoolExecutor(2) as both:
        started = [both.submit(outputs, program, node, folder / name) for name, node in (("a", reference), ("b", real))]
        return [one.result() for one in started]


def test_the_commands_print_the_same_on_both(compared: list[list[str]]) -> None:
    found = list(zip(COMMANDS, *compared, strict=True))
    shown = [f"$ kubectl {command}\n-- reference: {one}\n-- real: {two}" for command, one, two in found if one != two]
    unexpected = [text for text in shown if text.partition("\n")[0].removeprefix("$ kubectl ") not in DIFFERENT]
    assert not unexpected, "\n".join(unexpected)


def test_each_listed_difference_exists(compared: list[list[str]]) -> None:
    different = {command for command, one, two in zip(COMMANDS, *compared, strict=True) if one != two}
    assert different >= DIFFERENT.keys()


@pytest.mark.parametrize("server", ["reference", "real"])
def test_a_watch_prints_each_change(server: str, program: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kubeconfig = request.getfixturevalue(server)
    events = watched(program, kubeconfig, tmp_path)
    run(program, kubeconfig, tmp_path, "create configmap watched --from-literal=x=1")
    first = next(events)
    run(program, kubeconfig, tmp_path, "delete configmap watched")
    assert [first.split()[:2], next(events).split()[:2]] == [["ADDED", "watched"], ["DELETED", "watched"]]
    events.close()


def watched(program: Path, kubeconfig: Path, folder: Path) -> Iterator[str]:
    """The lines of `kubectl get --watch`, without the header; it ends with the iterator."""
    options = ["get", "configmaps", "--field-selector=metadata.name=watched", "--watch", "--output-watch-events"]
    command = [str(program), f"--kubeconfig={kubeconfig}", *options, "--no-headers"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as kubectl:
        assert kubectl.stdout is not None
        try:
            yield from kubectl.stdout
        finally:
            kubectl.terminate()
