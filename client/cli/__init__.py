"""The `mantamq` command: one file for each noun or verb."""
