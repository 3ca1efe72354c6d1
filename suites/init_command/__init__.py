"""`drahealth init`: starting files with comments."""
