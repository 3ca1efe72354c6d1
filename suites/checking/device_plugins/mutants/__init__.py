"""Wrong device plugins, each with one fault, that prove the checks."""
