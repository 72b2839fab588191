"""Programs of several kernels, products among them, as one kernel.py: what every DSL prints alike."""
