"""The names in a package folder that its writer, its readers and its measurements share."""

DEVICE_FILE = "device.yaml"  # of a device that kgen does not ship: readers know the others by their names
MEASURED = "measured"  # what runs measured; it belongs to one kernel.py
MEASURED_DIGEST = "kernel.sha256"  # in MEASURED: the digest of the kernel.py that was measured
