"""The differential test: generated scripts, played on the reference and on a real kubelet, and what the pods show
compared after each step. `ci/differential` runs it; docs/differential.md says how to read what it says.
"""
