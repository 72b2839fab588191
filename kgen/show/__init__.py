"""What the command line shows: typed results as rich renderables. Nothing here prints; `kgen.cli` does."""
