"""Specs: what a user asks for. Loaded from YAML, from a Python module, or made from a callable."""
