"""The driver profile: its model, its file, and the settings of a run that it gives."""
