"""Fault timelines on targets, and the commands about them."""
