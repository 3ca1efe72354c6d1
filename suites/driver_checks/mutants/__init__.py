"""Wrong drivers, each with one fault, and the healthy driver that they are made from."""
