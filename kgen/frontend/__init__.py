"""The front end: a reference in PyTorch to an OpGraph, and an OpGraph to a Program. torch is imported nowhere else."""
