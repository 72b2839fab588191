"""How many digits a probe writes."""


def rounded(value: float) -> float | int:
    """Return a number with the four digits that a measurement may have; whole numbers stay whole."""
    return value if isinstance(value, int) else float(f"{value:.4g}")
