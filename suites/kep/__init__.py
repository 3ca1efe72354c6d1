"""The scenarios of KEP-4680. None of them knows which target it runs on."""
