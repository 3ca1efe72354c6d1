"""The small part of a kubelet around its device manager: from the admission of a pod to its last status."""
