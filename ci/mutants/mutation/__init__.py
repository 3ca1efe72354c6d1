"""The mutation score of the scenarios: small changes of the reference, and the scenarios that fail for them."""
