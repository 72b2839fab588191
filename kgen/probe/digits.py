"""How many digits a probe writes."""

MEASURED, COMPUTED = 4, 6  # a rate per unit and cycle is computed back from a peak, and must come out whole


def rounded(value: float, digits: int = MEASURED) -> float | int:
    """Return a number with so many digits; whole numbers stay whole."""
    return value if isinstance(value, int) else float(f"{value:.{digits}g}")
