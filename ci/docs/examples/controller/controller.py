"""Deletes each Pod with an unhealthy device."""

from kubernetes import client, config, watch


def has_unhealthy_device(pod: client.V1Pod) -> bool:
    return any(
        device.health == "Unhealthy"
        for container in pod.status.container_statuses or []
        for resource in container.allocated_resources_status or []
        for device in resource.resources or []
    )


def main() -> None:
    config.load_kube_config()  # the file that KUBECONFIG names
    core = client.CoreV1Api()
    while True:  # the API server ends each watch after some minutes
        for event in watch.Watch().stream(core.list_pod_for_all_namespaces):
            pod = event["object"]
            if event["type"] != "DELETED" and not pod.metadata.deletion_timestamp and has_unhealthy_device(pod):
                try:
                    core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace)
                except client.ApiException as error:
                    if error.status != 404:  # 404: somebody else has deleted it
                        raise


if __name__ == "__main__":
    main()
