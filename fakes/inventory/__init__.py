"""Inventories: the devices of a fake, inventory files and their checks, and CDI specifications."""
