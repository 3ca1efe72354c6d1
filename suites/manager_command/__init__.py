"""`drahealth manager`: the reference as a standalone kubelet, a program that any driver can register with."""
