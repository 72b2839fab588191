"""The records of what was emitted, checked and benched: one SQLite file, written by many processes, merged over hosts.

Sees folders and their reports, no compiler: `kgen regen` writes records, `kgen diff` and `kgen dashboard` read them.
"""

from kgen.records.model import Kind, Record, Status, bench_record, now
from kgen.records.packages import emit_record, measured_records, records_of_package
from kgen.records.store import Store

__all__ = [
    "Kind",
    "Record",
    "Status",
    "Store",
    "bench_record",
    "emit_record",
    "measured_records",
    "now",
    "records_of_package",
]
