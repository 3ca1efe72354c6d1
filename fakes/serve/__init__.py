"""`drahealth driver serve -f FILE`: a process that serves fake drivers to any kubelet on its machine."""
