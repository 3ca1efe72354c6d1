"""The small part of a kubelet around its device manager: from admission to the last status."""
