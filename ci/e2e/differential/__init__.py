"""The differential test: play generated scripts on the reference and on a real kubelet, and compare the pod statuses.

`ci/e2e/check-differential` runs it. README.md explains its output.
"""
