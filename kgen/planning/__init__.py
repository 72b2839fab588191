"""Choices: the legal candidates in the order of their predicted time, and the plan. Light to import: only a number."""

TOP = 16  # candidates listed unless a caller asks for more
