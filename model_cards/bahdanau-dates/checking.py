"""What every configuration refuses, and in which words."""


def check_choice(name: str, value: str, allowed) -> None:
    """Refuse a value that names nothing, and say what there is."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(sorted(allowed))}.")


def check_positive(**sizes: int) -> None:
    """Refuse sizes below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1.")


def check_spread(**stds: float | None) -> None:
    """Refuse standard deviations that nothing can be drawn with."""
    for name, value in stds.items():
        if value is not None and not 0 <= value < float("inf"):
            raise ValueError(f"{name}={value} must be at least 0 and finite.")


def check_probability(**values: float) -> None:
    """Refuse dropout probabilities outside [0, 1)."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise ValueError(f"{name}={value} must be at least 0 and below 1.")
