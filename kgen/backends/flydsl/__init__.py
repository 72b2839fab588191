"""The FlyDSL back-end: Plan -> View for AMD CDNA."""
