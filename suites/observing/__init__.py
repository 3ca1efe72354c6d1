"""`drahealth observe`: judges an installed driver on the nodes of a cluster, from the API alone."""
