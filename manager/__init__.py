"""The reference: all that a kubelet does with the health of devices, and nothing else.

Pure inside (`cache`, `stream`, `claims`, `status`; time is an argument), edges around it (`registration`, `plugin`,
`checkpoint`). `dra` joins them to one half of a kubelet's device manager, `manager` is the whole. What differs between
the KEP and the releases is a `profile`.
"""
