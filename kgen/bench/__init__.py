"""Measurements: memory files, and how much of a device a measured time uses. Works on folders and target files only."""

from kgen.bench.memory import Assignment, Memory, create, mask, memory_file, read, summary, unmask, update
from kgen.bench.memory_fields import memory_schema
from kgen.bench.utilization import Amounts, Grid, Utilization, utilization

__all__ = [
    "Amounts",
    "Assignment",
    "Grid",
    "Memory",
    "Utilization",
    "create",
    "mask",
    "memory_file",
    "memory_schema",
    "read",
    "summary",
    "unmask",
    "update",
    "utilization",
]
