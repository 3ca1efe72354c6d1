"""The commands to a fake driver or device plugin, each defined once (`definition`)."""
