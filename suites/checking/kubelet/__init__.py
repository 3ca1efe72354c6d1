"""The scripted kubelet: the calls of a kubelet to one driver, each as an experiment asks for it.

It decides nothing, and retries only while it looks for a socket. The observer receives everything it sees, when it
sees it. `registration` has the handshake, `dra_calls` prepare and unprepare, `subscriber` health streams, and
`cdi_specs` the files that a container runtime reads.
"""
