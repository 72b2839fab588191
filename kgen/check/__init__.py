"""Proof of emitted packages, which are folders: compiled with no GPU (`check_package`), run on a GPU (`run_on_device`)
or in a simulator (`simulate_package`), or both (`check`).

Sees only the folder, the target files and external tools; it imports nothing of the compiler, and no DSL.
"""

from kgen.check.cache import Cache, default_cache_dir
from kgen.check.compile import check_package, check_packages
from kgen.check.evidence import KernelEvidence, MmaSites, WaveEvidence
from kgen.check.on_device import DeviceResult, run_on_device
from kgen.check.result import CheckResult, Finding, VariantEvidence
from kgen.check.simulated import SimulatedCase, SimulatedResult, simulate_package
from kgen.check.whole import PackageCheck, check

__all__ = [
    "Cache",
    "CheckResult",
    "DeviceResult",
    "Finding",
    "KernelEvidence",
    "MmaSites",
    "PackageCheck",
    "SimulatedCase",
    "SimulatedResult",
    "VariantEvidence",
    "WaveEvidence",
    "check",
    "check_package",
    "check_packages",
    "default_cache_dir",
    "run_on_device",
    "simulate_package",
]
