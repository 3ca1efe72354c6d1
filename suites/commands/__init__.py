"""The subcommands of `drahealth` that run scenarios and timelines or print lists."""
