"""The scenario of Pod specs that kube-apiserver rejects: each request has one kind of wrong field."""

from typing import Any

from api_answers.comparison import Request, Scenario
from api_answers.kinds import CONTAINER, Object

_PODS, _SETS = "/api/v1/namespaces/$NS/pods", "/apis/apps/v1/namespaces/$NS/replicasets"
_LABELS = {"app": "a"}


def _pod(label: str, **spec: Any) -> Request:
    return Request(
        label,
        "POST",
        _PODS,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], **spec}},
    )


def _container(label: str, **fields: Any) -> Request:
    return _pod(label, containers=[{**CONTAINER, **fields}])


def _resources(label: str, **resources: Any) -> Request:
    return _container(label, resources=resources)


def _port(label: str, **port: Any) -> Request:
    return _container(label, ports=[port])


def _toleration(label: str, **toleration: Any) -> Request:
    return _pod(label, tolerations=[toleration])


def _mount(label: str, *mounts: Object, volumes: list[Object] | None = None) -> Request:
    volumes = [{"name": "data", "emptyDir": {}}] if volumes is None else volumes
    return _pod(label, containers=[{**CONTAINER, "volumeMounts": list(mounts)}], volumes=volumes)


def _set(label: str, spec: Object, **fields: Any) -> Request:
    template = {"metadata": {"labels": _LABELS}, "spec": spec}
    body = {"replicas": 0, "selector": {"matchLabels": _LABELS}, "template": template, **fields}
    return Request(label, "POST", _SETS, {"metadata": {"name": "s"}, "spec": body})


POD_SPECS = Scenario(
    "pod-specs",
    [
        _pod("same-name", containers=[CONTAINER, CONTAINER]),
        _pod("same-name-init", initContainers=[CONTAINER]),
        _pod("same-name-inits", initContainers=[{**CONTAINER, "name": "a"}, {**CONTAINER, "name": "a"}]),
        _pod("no-containers", containers=[]),
        _pod("no-containers-and-policy", containers=[], restartPolicy="Sometimes"),
        _pod("no-image", containers=[{"name": "main"}]),
        _pod("no-image-init", initContainers=[{"name": "init"}]),
        _pod("space-in-image", containers=[{"name": "main", "image": " training"}]),
        _pod("no-name", containers=[{"image": "training"}]),
        _pod("neither", containers=[{}]),
        _pod("name-form", containers=[{**CONTAINER, "name": "Main"}]),
        _pod("name-long", containers=[{**CONTAINER, "name": "a" * 64}]),
        _pod("restart-policy", restartPolicy="Sometimes"),
        _pod("dns-policy", dnsPolicy="Other"),
        _pod("dns-none", dnsPolicy="None"),
        _pod("negative-deadline", activeDeadlineSeconds=-1),
        _pod("zero-deadline", activeDeadlineSeconds=0),
        _pod("node-name", nodeName="a b"),
        _pod("node-selector", nodeSelector={"a b": "c"}),
        _pod("service-account", serviceAccountName="A"),
        _pod("host-name", hostname="A.b"),
        _container("pull-policy", imagePullPolicy="Sometimes"),
        _container("message-policy", terminationMessagePolicy="Other"),
        _container("container-restart", restartPolicy="Sometimes"),
        _pod("init-restart", initContainers=[{**CONTAINER, "name": "i", "restartPolicy": "Sometimes"}]),
        _container("env-name", env=[{"name": ""}]),
        _container("env-form", env=[{"name": "a=b"}]),
        _container(
            "env-both", env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        ),
        _resources("quantity", requests={"cpu": "much"}),
        _resources("quantity-limit", limits={"memory": "1Gib"}),
        _resources("quantity-empty", limits={"memory": ""}),
        _resources("negative", requests={"cpu": "-1"}),
        _resources("over-limit", requests={"cpu": "2"}, limits={"cpu": "1"}),
        _resources("over-limit-memory", requests={"memory": "2Gi"}, limits={"memory": "1000Mi"}),
        _resources("unknown-resource", requests={"color": "1"}),
        _resources("resource-form", requests={"a b": "1"}),
        _resources("extended-request", requests={"example.com/gpu": "1"}),
        _resources("extended-part", limits={"example.com/gpu": "500m"}),
        _resources("extended-other", requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
        _mount("mount-unknown", {"name": "other", "mountPath": "/data"}),
        _mount("mount-without-name", {"mountPath": "/data"}),
        _mount("mount-without-path", {"name": "data"}),
        _mount("mount-twice", {"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}),
        _mount("mount-sub-path", {"name": "data", "mountPath": "/a", "subPath": "../b"}),
        _mount("volume-twice", volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        _mount("volume-without-name", volumes=[{"emptyDir": {}}]),
        _mount("volume-form", volumes=[{"name": "A", "emptyDir": {}}]),
        _mount("volume-two-sources", volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]),
        _port("port-zero", containerPort=0),
        _port("port-missing", name="web"),
        _port("port-large", containerPort=70000),
        _port("port-host-large", containerPort=80, hostPort=70000),
        _port("port-protocol", containerPort=80, protocol="HTTP"),
        _port("port-name", containerPort=80, name="Web!"),
        _port("port-name-long", containerPort=80, name="a" * 16),
        _container("port-names", ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
        _container("port-hosts", ports=[{"containerPort": 80, "hostPort": 8}, {"containerPort": 81, "hostPort": 8}]),
        _toleration("toleration-operator", key="a", operator="Other"),
        _toleration("toleration-effect", key="a", operator="Exists", effect="Other"),
        _toleration("toleration-value", key="a", operator="Exists", value="b"),
        _toleration("toleration-key", operator="Equal", value="b"),
        _toleration("toleration-key-form", key="a b", operator="Exists"),
        _toleration("toleration-seconds", key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
        _toleration("toleration-value-form", key="a", operator="Equal", value="b c"),
        _pod(
            "claim-sources", resourceClaims=[{"name": "a", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]
        ),
        _pod("claim-without-source", resourceClaims=[{"name": "a"}]),
        _pod("claim-without-name", resourceClaims=[{"resourceClaimName": "a"}]),
        _pod("claim-twice", resourceClaims=[{"name": "a", "resourceClaimName": "a"}] * 2),
        _pod("claim-form", resourceClaims=[{"name": "A", "resourceClaimName": "B"}]),
        _pod("gate-twice", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/a"}]),
        _pod(
            "several",
            containers=[{"name": "A", "ports": [{"containerPort": 0}], "resources": {"requests": {"cpu": "-1"}}}],
            restartPolicy="Sometimes",
            tolerations=[{"key": "a", "operator": "Other"}],
        ),
        _pod(
            "right",
            initContainers=[{**CONTAINER, "name": "init", "restartPolicy": "Always"}],
            containers=[
                {
                    **CONTAINER,
                    "ports": [{"containerPort": 80, "name": "web", "protocol": "UDP"}],
                    "resources": {
                        "requests": {"cpu": "500m", "memory": "1Gi"},
                        "limits": {"cpu": "1", "memory": "1Gi"},
                    },
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            volumes=[{"name": "data", "emptyDir": {}}],
            tolerations=[
                {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}
            ],
        ),
        Request(
            "update-image",
            "PATCH",
            f"{_PODS}/p",
            [{"op": "replace", "path": "/spec/containers/0/image", "value": ""}],
            "application/json-patch+json",
        ),
        _set("set-no-image", {"containers": [{"name": "main"}]}),
        _set("set-same-name", {"containers": [CONTAINER, CONTAINER]}),
        _set("set-no-containers", {}),
        _set("set-restart", {"containers": [CONTAINER], "restartPolicy": "Never"}),
        _set("set-negative", {"containers": [CONTAINER]}, replicas=-1),
        _set("set-selector", {"containers": [CONTAINER]}, selector={"matchLabels": {"app": "b"}}),
        _set("set-without-selector", {"containers": [CONTAINER]}, selector=None),
    ],
)
