"""Declared environments: systemd units, command lines and wrappers, containers' definitions."""
