"""The reference: all that a kubelet does with the health of devices, and nothing else.

Pure inside (`cache`, `stream`, `claims`, `status`; `resources`, `allocations`; time is an argument), edges around it
(`registration`, `plugin`, `checkpoint`; `kubelet_socket`, `device_plugin`, `allocation_checkpoint`). `dra` and
`device_plugins` join them to the two halves of a kubelet's device manager, `manager` is the whole. What differs between
the KEP and the releases is a `profile`.
"""
