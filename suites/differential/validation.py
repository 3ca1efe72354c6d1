"""Validation of scripts. Pure."""

from drahealth.suites.differential.script import (
    DeletePod,
    EndList,
    EndStream,
    Garbage,
    Held,
    ListDevices,
    PluginStep,
    Report,
    Script,
    Start,
    StartPlugin,
    StartPod,
    Stop,
    StopPlugin,
    Use,
)


def find_error(script: Script) -> str:
    """The error that makes a script invalid; empty for a valid one."""
    return _set_up_error(script) or _plugins_error(script) or _steps_error(script) or _plugin_steps_error(script)


def _set_up_error(script: Script) -> str:
    wanted = [0] * len(script.drivers)
    for number, claim in enumerate(script.claims):
        if len({request.name for request in claim.requests}) != len(claim.requests) or not claim.requests:
            return f"claim {number} has no requests, or two with the same name"
        for request in claim.requests:
            if not 0 <= request.driver < len(script.drivers):
                return f"claim {number} names driver {request.driver}, which does not exist"
            wanted[request.driver] += request.count
    for number, driver in enumerate(script.drivers):
        if len({device.name for device in driver.devices}) != len(driver.devices):
            return f"driver {number} has two devices with the same name"
        if wanted[number] > len(driver.devices):
            return f"driver {number} has too few devices for the claims"
    for number, pod in enumerate(script.pods):
        if not pod.containers:
            return f"pod {number} has no containers"
        if any(_is_bad_use(script, use) for container in pod.containers for use in container):
            return f"pod {number} uses a claim, request or device plugin that does not exist"
        if any(len(set(container)) != len(container) for container in pod.containers):
            return f"pod {number} has a container with the same claim or device plugin twice"
    return ""


def _plugins_error(script: Script) -> str:
    """Errors of device plugins. Each has enough devices for all pods, so each pod can start."""
    for number, plugin in enumerate(script.plugins):
        if len(set(plugin.devices)) != len(plugin.devices):
            return f"plugin {number} has two devices with the same id"
        uses = [use for pod in script.pods for container in pod.containers for use in container]
        if sum(use.count for use in uses if isinstance(use, Held) and use.plugin == number) > len(plugin.devices):
            return f"plugin {number} has too few devices for the pods"
    for number, pod in enumerate(script.pods):
        held = [[use.plugin for use in container if isinstance(use, Held)] for container in pod.containers]
        if any(len(set(numbers)) != len(numbers) for numbers in held):
            return f"pod {number} has a container with the same device plugin twice"
    return ""


def _is_bad_use(script: Script, use: Use | Held) -> bool:
    if isinstance(use, Held):
        return not 0 <= use.plugin < len(script.plugins)
    if not 0 <= use.claim < len(script.claims):
        return True
    return use.request is not None and use.request not in {r.name for r in script.claims[use.claim].requests}


def _steps_error(script: Script) -> str:
    """Errors of the order of steps: a stopped instance runs, a started one does not, and pods have their drivers."""
    running = {(number, 0) for number in range(len(script.drivers))}
    pods = {number for number, pod in enumerate(script.pods) if not pod.later}
    waiting = {number for number, pod in enumerate(script.pods) if pod.later}
    for number, step in enumerate(script.steps):
        match step:
            case Report() | Garbage() | EndStream() | Stop():
                if (step.driver, step.instance) not in running:
                    return f"step {number}: instance {step.instance} of driver {step.driver} does not run"
            case Start():
                if step.driver >= len(script.drivers) or (step.driver, step.instance) in running:
                    return f"step {number}: instance {step.instance} of driver {step.driver} runs or does not exist"
                running.add((step.driver, step.instance))
            case StartPod() | DeletePod():
                if step.pod not in (waiting if isinstance(step, StartPod) else pods):
                    return f"step {number}: pod {step.pod} cannot be started or deleted now"
                if any(
                    (driver, 0) not in running and (driver, 1) not in running for driver in range(len(script.drivers))
                ):
                    return f"step {number}: a pod starts or ends while one of the drivers is stopped"
                waiting.discard(step.pod)
                (pods.add if isinstance(step, StartPod) else pods.discard)(step.pod)
            case _:
                pass
        if isinstance(step, Stop):
            running.discard((step.driver, step.instance))
    return "" if script.restarts <= 1 else "the kubelet is restarted more than once"


def _plugin_steps_error(script: Script) -> str:
    """Errors of the steps of device plugins. A pod starts only while each of its plugins is as at the start."""
    running = {(number, 0) for number in range(len(script.plugins))}
    changed: set[int] = set()
    for number, step in enumerate(script.steps):
        if isinstance(step, StartPod):
            if changed.intersection(held_plugins(script, step.pod)):
                return f"step {number}: pod {step.pod} starts after a change of its device plugin"
            continue
        if not isinstance(step, PluginStep):
            continue
        if not 0 <= step.plugin < len(script.plugins):
            return f"step {number} names device plugin {step.plugin}, which does not exist"
        instance = (step.plugin, step.instance)
        if (instance in running) is isinstance(step, StartPlugin):
            return f"step {number}: instance {step.instance} of plugin {step.plugin} runs already, or does not run"
        match step:
            case StartPlugin():
                running.add(instance)
            case StopPlugin():
                running.discard(instance)
            case ListDevices():
                names = [listed.device for listed in step.devices]
                if len(set(names)) != len(names) or not set(names) <= set(script.plugins[step.plugin].devices):
                    return f"step {number} lists a device twice, or one that the plugin does not have"
            case EndList():
                pass
        changed.add(step.plugin)
    return ""


def held_plugins(script: Script, pod: int) -> set[int]:
    """The device plugins whose devices the pod requests."""
    return {use.plugin for container in script.pods[pod].containers for use in container if isinstance(use, Held)}
