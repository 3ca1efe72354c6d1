"""`drahealth ctl`: tells the drivers of a process what happens to their devices, over its control socket."""
