"""Proof of emitted packages, which are folders: compiled with no GPU (`check_package`), run (`run_on_device`), or both
(`check`).

Sees only the folder, the target files and external tools; it imports nothing of the compiler, and no DSL.
"""

from kgen.check.cache import Cache, default_cache_dir
from kgen.check.compile import check_package, check_packages
from kgen.check.on_device import DeviceResult, run_on_device
from kgen.check.result import CheckResult, Finding, VariantEvidence
from kgen.check.sass import KernelEvidence, MmaSites
from kgen.check.whole import PackageCheck, check

__all__ = [
    "Cache",
    "CheckResult",
    "DeviceResult",
    "Finding",
    "KernelEvidence",
    "MmaSites",
    "PackageCheck",
    "VariantEvidence",
    "check",
    "check_package",
    "check_packages",
    "default_cache_dir",
    "run_on_device",
]
