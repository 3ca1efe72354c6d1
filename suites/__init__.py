"""Pytest suites, what they run on, and the `drahealth` command."""

from typing import TYPE_CHECKING

from drahealth.proto.exports import exports

if TYPE_CHECKING:
    from drahealth.proto.version import __version__
    from drahealth.suites.errors import ConfigurationError, HarnessError
    from drahealth.suites.nodes.reference_kubelet import ReferenceKubelet
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["ConfigurationError", "HarnessError", "ReferenceKubelet", "__version__"]
