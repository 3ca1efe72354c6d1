"""The fake hardware: a DRA driver whose devices fail as they are told, and its control surface."""
