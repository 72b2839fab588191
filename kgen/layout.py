"""The names in a package folder that its writer and its measurements share."""

MEASURED = "measured"  # what runs measured; it belongs to one kernel.py
MEASURED_DIGEST = "kernel.sha256"  # in MEASURED: the digest of the kernel.py that was measured
