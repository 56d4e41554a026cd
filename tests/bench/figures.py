"""The rows of the table: a measured value against the limits that it is held to, and the
tables of the report.
"""

import itertools
import statistics


class Figure:
    """One row: a value against the most that it must and should be. Without `aim` there is
    nothing beyond the must, and without `must` the row is for comparison. `meaning` says in
    a line what the row tells, and `profile` where the time goes, by what profiles show."""

    def __init__(self, name, value, unit, must, aim, detail="", meaning="", profile=""):
        self.name, self.value, self.unit = name, value, unit
        self.must, self.aim, self.detail, self.meaning = must, aim, detail, meaning
        self.profile = " ".join(profile.split())

    def verdict(self):
        if self.aim is not None and self.value <= self.aim:
            return "aim"
        if self.must is None:
            return "–"
        return "must" if self.value <= self.must else "MISSED"

    def is_short_of_aim(self):
        return self.aim is not None and self.value > self.aim

    def cells(self):
        limits = ["–" if limit is None else f"≤ {limit:g} {self.unit}" for limit in (self.must, self.aim)]
        return [self.name, f"{short(self.value)} {self.unit}", *limits, self.verdict(), self.detail]


def times(name, samples, must, aim, detail="", meaning="", profile=""):
    """A row of a time in milliseconds, from samples in seconds."""
    samples = [sample * 1000 for sample in samples]
    spread = f"p90 {short(ninth_decile(samples))} ms, n={len(samples)}"
    detail = "; ".join(filter(None, [spread, detail]))
    return Figure(name, statistics.median(samples), "ms", must, aim, detail, meaning, profile)


def ninth_decile(samples):
    return statistics.quantiles(samples, n=10)[-1]


def short(value):
    """Three digits that count, and never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(head, rows):
    """The lines of a Markdown table whose columns are aligned, to be read as text too."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    cells.insert(1, ["-" * width for width in widths])
    padded = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in cells]
    return [f"| {' | '.join(row)} |" for row in padded]


def meanings(pairs):
    """What the named rows tell, a line for those that follow on and tell the same."""
    lines = []
    for meaning, group in itertools.groupby(pairs, key=lambda pair: pair[1]):
        names = "; ".join(f"**{name}**" for name, _ in group)
        lines += [f"- {names}: {meaning}"] if meaning else []
    return lines
