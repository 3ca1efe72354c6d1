"""What scenarios tell their stories with: a node, its hardware, its workload, and the history of it all."""
