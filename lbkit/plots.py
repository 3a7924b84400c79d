"""Figures: a tidy table and an axes in, the axes out.

A figure shows the very table that is saved beside it, one row a point, so that ``curves`` and ``points`` serve every
study. Colours and dashes belong to labels, not to the order of a call: a policy looks the same in every figure. The
palette (Okabe and Ito) is told apart by colour-blind readers; dashes tell the curves apart in grey.
"""

from __future__ import annotations

import re
from itertools import cycle

import numpy as np

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)))

FAMILIES = {
    "SQ": ("#000000", "-"), "SQ-RTB": ("#0072B2", "-"), "SQ-RE": ("#56B4E9", "--"), "SQ-RTB-RE": ("#CC79A7", "-."),
    "LAS": ("#009E73", "--"), "LAS-QTB": ("#E69F00", "-."), "RE": ("#8C6D31", (0, (1, 1.2))), "LEW": ("#D55E00", "-"),
}  # fmt: skip


def curves(table, x: str, y: str, ax, by: str = "policy", lw: float = 1.8):
    """A line y over x, of width ``lw``, for each value of column ``by``, in the order of the table."""
    for label, part, look in _parts(table, by):
        ax.plot(part[x], part[y], label=label, lw=lw, **look)
    return ax


def redraw(table, x: str, y: str, ax, by: str = "policy", lw: float = 1.8) -> bool:
    """``curves`` on axes that hold an earlier table: their lines move, new ones come, old ones go.

    Says whether lines came or went, so that a legend has to be made anew.
    """
    held = {line.get_label(): line for line in ax.lines if line.get_gid() == "curve"}
    changed = False
    for label, part, look in _parts(table, by):
        if label not in held:
            ax.plot([], [], label=label, lw=lw, gid="curve")
            changed = True
        line = held.pop(label, ax.lines[-1])
        line.set(data=(part[x], part[y]), **look)
    for line in held.values():
        line.remove()
    return changed or bool(held)


def points(table, x: str, y: str, half: str, ax, by: str = "policy", legend: bool = True):
    """A marker with its confidence interval y +- half for each row, coloured by column ``by``."""
    for label, part, look in _parts(table, by):
        look = {"color": look["color"], "label": f"{label}, simulated" if legend else None}
        ax.errorbar(part[x], part[y], part[half], fmt="o", ms=4, capsize=3, lw=1.2, **look)
    return ax


def dress(ax, title: str = "", x: str = "", y: str = "", legend: str | None = "best", **limits):
    """Title, axis labels (with their units), a light grid, a legend; ``limits`` go to ``ax.set``."""
    ax.set(title=title, xlabel=x, ylabel=y, **limits)
    ax.grid(alpha=0.25, lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if legend and len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend(loc=legend, frameon=False, fontsize="small")
    return ax


def _parts(table, by):
    """(label, rows, look) for each value of a column, in order of appearance."""
    table = {name: np.asarray(table[name]) for name in table}
    labels = list(dict.fromkeys(table[by].tolist()))
    families = [re.sub(r"\(.*?\)", "", str(label)) for label in labels]
    known = len(set(families)) == len(labels) and all(family in FAMILIES for family in families)
    spare = zip(cycle(PALETTE), (dash for dash in cycle(DASHES)))
    for label, family in zip(labels, families):
        color, ls = FAMILIES[family] if known else next(spare)
        yield label, {name: column[table[by] == label] for name, column in table.items()}, {"color": color, "ls": ls}
