"""The CuTe DSL back-end: Plan -> View for NVIDIA Hopper, and how fp32 expressions are printed."""
