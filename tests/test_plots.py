"""Figures show the table they are given, and a policy looks the same in every one."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from lbkit import plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def table(*labels):
    return {
        "policy": [label for label in labels for _ in range(3)],
        "lam": [0.1, 0.5, 0.9] * len(labels),
        "gain": list(np.arange(3.0 * len(labels))),
        "half": [0.1] * 3 * len(labels),
    }


def test_curves_draw_the_rows_of_each_label(ax):
    assert plots.curves(table("SQ(2)", "LEW(2)"), "lam", "gain", ax) is ax
    assert [line.get_label() for line in ax.lines] == ["SQ(2)", "LEW(2)"]
    assert ax.lines[1].get_ydata().tolist() == [3, 4, 5]


def test_a_policy_looks_the_same_in_every_figure(ax):
    other = plots.curves(table("LEW(5)", "SQ(5)-RTB"), "lam", "gain", Figure().add_subplot())
    plots.curves(table("SQ(20)-RTB", "LAS(20)", "LEW(20)"), "lam", "gain", ax)
    looks = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert looks["LEW(20)"] == (other.lines[0].get_color(), other.lines[0].get_linestyle())
    assert looks["SQ(20)-RTB"] == (other.lines[1].get_color(), other.lines[1].get_linestyle())
    assert len(set(looks.values())) == 3


def test_labels_of_one_family_are_told_apart(ax):
    plots.curves(table("SQ(2)", "SQ(5)", "SQ(10)"), "lam", "gain", ax)
    assert len({line.get_color() for line in ax.lines}) == 3


def test_points_carry_their_intervals_and_the_colour_of_their_curve(ax):
    plots.curves(table("LAS(5)"), "lam", "gain", ax)
    plots.points(table("LAS(5)"), "lam", "gain", "half", ax)
    (bars,) = ax.containers
    assert bars.lines[0].get_color() == ax.lines[0].get_color()
    lower, upper = bars.lines[2][0].get_segments()[0][:, 1]
    assert upper - lower == pytest.approx(0.2)


def test_a_legend_only_where_there_is_something_to_tell(ax):
    plots.dress(plots.curves(table("SQ(2)"), "lam", "gain", ax), "title", "load", "gain", ylim=(0, 1))
    assert ax.get_legend() is None and ax.get_ylim() == (0, 1) and ax.get_xlabel() == "load"
    plots.dress(plots.curves(table("LAS(2)"), "lam", "gain", ax))
    assert ax.get_legend() is not None


def test_points_may_stay_out_of_the_legend(ax):
    plots.curves(table("SQ(2)", "LEW(2)"), "lam", "gain", ax)
    plots.points(table("SQ(2)", "LEW(2)"), "lam", "gain", "half", ax, legend=False)
    assert ax.get_legend_handles_labels()[1] == ["SQ(2)", "LEW(2)"]
    plots.points(table("SQ(2)", "LEW(2)"), "lam", "gain", "half", ax)
    assert ax.get_legend_handles_labels()[1][2:] == ["SQ(2), simulated", "LEW(2), simulated"]
