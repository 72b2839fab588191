"""Loop kernels (pointwise, reductions, scans): what is printed and in which order; the words are a dialect's."""
