"""The certificate: what a run certifies, its comparison with the evidence, with other reports and with a baseline."""
