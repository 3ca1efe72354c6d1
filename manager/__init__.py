"""The reference: all that a kubelet does with the health of devices, and nothing else.

Pure inside (`cache`, `stream`, `claims`, `status`; time is an argument), edges around it (`registration`, `plugin`,
`checkpoint`), and `manager` joins them. What differs between the KEP and the releases is a `profile`.
"""
