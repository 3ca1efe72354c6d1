"""What evidence shows, in the form that checks need: claims, devices, streams, processes. Pure.

Answers of a driver are plain data of any shape. Nothing here raises for a field that is missing or of another type.
"""
