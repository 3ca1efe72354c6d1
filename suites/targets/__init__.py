"""What scenarios run on: the seam, and each target behind it."""
