"""Fake drivers that stand by themselves: `drahealth driver serve -f FILE`, a process next to any kubelet."""
