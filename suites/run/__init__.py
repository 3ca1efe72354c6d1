"""A pytest run of scenarios: plugin, options, session, outcomes."""
