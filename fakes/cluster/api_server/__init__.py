"""An API server in memory, with the rules that matter to device health; over HTTP too."""
