"""Fault adapters: they break and heal the devices of a driver, as its driver profile declares."""
