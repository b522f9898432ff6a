"""The checks of `trace-sitecustomize`: one file per check, and what they look at."""
