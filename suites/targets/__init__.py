"""Targets: what scenarios run on. Each target is a folder; `registry` lists them."""
