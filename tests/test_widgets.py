"""Panels without a browser: controls, the latest value, errors, what they hand out, and that nothing grows."""

import re
import threading
import time

import numpy as np
import pandas as pd
import pytest

from lbkit import panels, presets, studies, widgets
from lbkit.controls import make_controls

VIEWS = {
    "sqd_variants": studies.SqdVariants(loads=6, compared=["SQ", "SQ-RE"], servers=[100], simulated_jobs=20_000),
    "light_traffic": studies.LightTraffic(rates=[2.0, 5.0], simulated_jobs=20_000),
    "tags": studies.Tags(h=2, simulated_jobs=20_000),
    "balanced_routing": studies.BalancedRouting(simulated_jobs=20_000),
}
BAD = {
    "scv": -1.0, "f": 2.0, "k": 0, "d": 0, "threshold": -1.0, "lam": 1.5, "compared": (), "slow": 0.0, "fast": 1e6,
    "slow_servers": -1, "fast_servers": -1, "lam_high": -2.0, "laws": (), "alpha": 3.0, "ratio": 0.5, "rho": 1.5,
    "h": 99, "c": 7, "scheme": "sun",
}  # fmt: skip


def quick(study):
    """A table that tells its parameters, at no cost."""
    return {"policy": ["SQ"] * 2, "lam": [0.0, 1.0], "mean_wait": [study.scv, study.f]}


def draw(table, axes):
    from lbkit import plots

    return plots.redraw(table, "lam", "mean_wait", axes[0])


def small(compute=quick, live=False, **options):
    return widgets.explore(studies.SqdVariants, compute, draw, controls=("scv", "f", "d", "lam"), live=live, **options)


@pytest.fixture
def live():
    """A live panel whose computation waits for a gate and keeps a log."""
    gate, log = threading.Event(), []

    def gated(study):
        log.append(study)
        if len(log) > 1:
            gate.wait(10)
        return quick(study)

    panel = small(gated, live=True)
    panel.gate, panel.solved = gate, log
    yield panel
    gate.set()
    panel.wait()


@pytest.mark.parametrize("name", VIEWS)
def test_every_control_moves_the_study_and_the_figure(name):
    panel = widgets.explore(VIEWS[name], **getattr(panels, name), live=False)
    assert panel.screen.state == "done" and panel.screen.frame.startswith(b"\x89PNG")
    for parameter, control in panel.controls.items():
        before, frame = getattr(panel.study, parameter), panel.screen.frame
        if hasattr(control, "slider"):
            control.slider.value += 1 if control.slider.value < control.slider.max else -1
            assert getattr(panel.study, parameter) == control.places[control.slider.value] == control.field.value
        elif hasattr(control, "boxes"):
            box = next(box for box in control.boxes.values() if box.value == (len(control.value) > 1))
            box.value = not box.value
        else:
            control.field.value = next(option for option in control.field.options if option != before)
        assert getattr(panel.study, parameter) == control.value != before
        assert panel.screen.frame != frame, parameter
    panel.reset()
    assert panel.study == panel.start
    assert {parameter: control.value for parameter, control in panel.controls.items()} == {
        parameter: getattr(panel.start, parameter) for parameter in panel.controls
    }


@pytest.mark.parametrize("name", VIEWS)
def test_every_control_refuses_a_bad_value_by_name(name):
    panel = widgets.explore(VIEWS[name], **getattr(panels, name), live=False)
    for parameter, control in panel.controls.items():
        with pytest.raises(ValueError, match=rf"\b{parameter}\b"):
            panel.set(**{parameter: BAD[parameter]})
        assert panel.study == panel.start and control.value == getattr(panel.start, parameter)


@pytest.mark.parametrize("name", VIEWS)
def test_simulated_points_lie_on_the_axes_and_leave_with_the_next_table(name):
    panel = widgets.explore(VIEWS[name], **getattr(panels, name), live=False)
    marks = [len(ax.containers) for ax in panel.axes]
    panel.buttons["simulate"].value = True
    assert "simulated" in panel.screen.said and len(panel.points) >= 2
    assert (panel.points["half"] > 0).all() and sum(len(ax.containers) for ax in panel.axes) > sum(marks)
    panel.buttons["simulate"].value = False
    first = next(iter(panel.controls.values()))
    first.slider.value += 1
    assert panel.points is None and [len(ax.containers) for ax in panel.axes] == marks


def test_a_simulated_wait_agrees_with_the_curve():
    study = studies.SqdVariants(lam=0.9, compared=["SQ"], servers=[1000], simulated_jobs=400_000, loads=2, lam_high=0.9)
    (*_, table), (*_, points) = panels.waits(study), panels.simulated_waits(study, lambda share: None)
    assert points.wait[0] == pytest.approx(table.mean_wait.iloc[-1], abs=4 * points.half[0] + 0.01)


def test_a_table_is_refined_and_ends_at_the_study_own_loads():
    coarse, fine = panels.waits(studies.SqdVariants(compared=["SQ-RE"], loads=80))
    assert len(coarse) < len(fine) / 3 and len(fine) == 80
    both = coarse.merge(fine, on=["policy", "lam"])
    assert len(both) == len(coarse)
    np.testing.assert_allclose(both.mean_wait_x, both.mean_wait_y, rtol=1e-5)


def test_the_places_of_a_slider_lie_on_its_scale():
    panel = make_controls(studies.SqdVariants(), ("lam", "scv", "d"))
    gaps = np.log10(1 - np.array(panel["lam"].places))
    assert np.ptp(np.diff(gaps[:20])) < 0.06 and panel["lam"].places[-1] == 0.999
    assert np.ptp(np.diff(panel["scv"].places)) < 1e-9
    assert panel["d"].places == list(range(2, 21))
    ratios = np.log10(make_controls(studies.Tags(), ("ratio",))["ratio"].places)
    assert np.diff(ratios) == pytest.approx(0.25, abs=0.02)


def test_a_typed_value_need_not_lie_on_the_slider():
    panel = small()
    panel.controls["scv"].field.value = 12.34
    assert panel.study.scv == 12.34
    panel.controls["scv"].field.value = 500.0  # beyond the slider, within the hard bounds
    assert panel.study.scv == 500 and panel.controls["scv"].slider.value == panel.controls["scv"].slider.max


def test_lines_move_and_are_not_made_anew():
    panel = small()
    lines = list(panel.axes[0].lines)
    panel.set(scv=20.0)
    assert list(panel.axes[0].lines) == lines and lines[0].get_ydata().tolist() == [20, 0.5]


def test_of_many_values_the_last_is_computed_and_the_rest_are_dropped(live):
    for scv in range(1, 41):
        live.set(scv=float(scv))
    live.gate.set()
    live.wait()
    assert len(live.solved) <= 3 and live.solved[-1].scv == 40
    assert live.table["mean_wait"][0] == 40 and live.screen.state == "done"


def test_while_it_computes_a_panel_says_so(live):
    assert live.screen.state == "done"
    live.set(scv=3.0)
    assert live.screen.state == "busy"
    live.gate.set()
    live.wait()
    assert live.screen.state == "done" and live.screen.said.endswith("ms")


def test_a_bad_value_is_shown_and_the_last_good_figure_stays(live):
    frame = live.screen.frame
    live.controls["d"].field.value = 1000
    assert "d must be an integer in [1, 100], not 1000" == live.screen.problem and live.screen.state == "stale"
    assert "lbkit-wrong" in live.controls["d"]._dom_classes and live.screen.frame == frame
    live.gate.set()
    live.controls["d"].field.value = 6
    live.wait()
    assert not live.screen.problem and "lbkit-wrong" not in live.controls["d"]._dom_classes
    assert live.study.d == 6 and live.screen.state == "done"


def test_a_bad_value_outlives_the_computation_of_the_good_one_before(live):
    live.set(scv=3.0)
    live.controls["d"].field.value = 1000
    live.gate.set()
    live.wait()
    assert live.table["mean_wait"][0] == 3 and live.screen.state == "stale" and "d must be" in live.screen.problem


@pytest.mark.parametrize("error", [ValueError("lam is too close to one"), ZeroDivisionError("division by zero")])
def test_what_a_solver_says_is_shown_live_and_raised_headless(error, capfd):
    def fails(study):
        if study.scv > 20:
            raise error
        return quick(study)

    panel = small(fails, live=True)
    frame = panel.screen.frame
    panel.set(scv=30.0)
    panel.wait()
    assert str(error) in panel.screen.problem and panel.screen.state == "stale" and panel.screen.frame == frame
    panel.reset()
    panel.wait()
    assert not panel.screen.problem
    with pytest.raises(type(error), match=str(error)):
        small(fails).set(scv=30.0)
    with pytest.raises(type(error)):
        widgets.explore(studies.SqdVariants(scv=30.0), fails, draw, live=True)


def endless(study, tell):
    while True:
        tell(0.5)
        time.sleep(0.01)
        yield pd.DataFrame()


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def test_a_simulation_starts_at_rest_and_stops_within_a_second():
    panel = small(live=True, simulate=endless, mark=lambda points, axes: None)
    panel.buttons["simulate"].value = True
    until(lambda: panel.screen.progress >= 0)
    assert not panel.buttons["stop"].disabled and panel.screen.state == "busy"
    begun = time.monotonic()
    panel.buttons["stop"].click()
    panel.wait(1)
    assert time.monotonic() - begun < 1 and "stopped" in panel.screen.said and panel.buttons["stop"].disabled


def test_a_new_value_ends_a_simulation():
    panel = small(live=True, simulate=endless, mark=lambda points, axes: None)
    panel.buttons["simulate"].value = True
    until(lambda: panel.screen.progress >= 0)
    panel.set(scv=17.0)
    until(lambda: panel.table["mean_wait"][0] == 17)
    panel.buttons["simulate"].value = False
    panel.wait(2)


def test_a_real_simulation_stops_within_a_second():
    study = studies.SqdVariants(simulated_jobs=10**9, servers=[1000], compared=["SQ"], loads=2)
    panel = widgets.explore(study, **panels.sqd_variants, live=True)
    panel.buttons["simulate"].value = True
    until(lambda: panel.screen.progress > 0, 60)
    begun = time.monotonic()
    panel.stop()
    panel.wait(5)
    assert time.monotonic() - begun < 1


def test_two_panels_share_nothing():
    one, two = small(), small()
    frame = two.screen.frame
    one.set(scv=25.0)
    one.freeze()
    assert two.study == two.start and two.screen.frame == frame and len(two.axes[0].lines) == 1


def test_frozen_curves_stay_until_they_are_let_go():
    panel = small()
    panel.buttons["freeze"].value = True
    panel.set(scv=30.0)
    shown = {line.get_gid(): line.get_ydata()[0] for line in panel.axes[0].lines}
    assert shown == {"frozen": 10, "curve": 30}
    panel.buttons["freeze"].value = False
    assert [line.get_gid() for line in panel.axes[0].lines] == ["curve"] and panel.screen.state == "done"


def test_what_a_panel_hands_out(tmp_path):
    panel = widgets.explore(VIEWS["sqd_variants"], **panels.sqd_variants, live=False)
    panel.set(scv=12.5, lam=0.7)
    starts = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    for kind, start in starts.items():
        assert panel.file(kind).startswith(start)
    (tmp_path / "data.csv").write_bytes(panel.file("csv"))
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "data.csv"), panel.table.reset_index(drop=True))
    (tmp_path / "mine.yaml").write_text(panel.yaml(), encoding="utf-8")
    assert presets.resolve("sqd_variants", tmp_path / "mine.yaml") == panel.study
    namespace = {}
    exec(panel.code(), namespace)
    pd.testing.assert_frame_equal(namespace["table"], panel.table)


def test_files_of_a_panel_leave_its_picture_alone():
    panel = small()
    frame = panel.screen.frame
    for kind in ("pdf", "svg", "png"):
        panel.file(kind)
    panel._paint()
    assert panel.screen.frame == frame


@pytest.mark.parametrize("name", VIEWS)
def test_a_preset_moves_the_whole_study(name):
    panel = widgets.explore(VIEWS[name], **getattr(panels, name) | dict(simulate=None), live=False)
    panel.menu.value = "smoke"
    assert panel.study == presets.resolve(name, "smoke")


def test_a_public_panel_keeps_to_its_sliders():
    panel = small(public=True)
    with pytest.raises(ValueError, match=r"scv must lie in \[1, 40\] here"):
        panel.set(scv=500.0)
    with pytest.raises(ValueError, match="loads cannot be changed here"):
        panel.set(loads=2000)
    panel.menu.value = "smoke"
    assert panel.study.loads == panel.start.loads


def test_a_control_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="no parameter 'scw'; did you mean 'scv'"):
        widgets.explore(studies.SqdVariants, quick, draw, controls=("scw",))
    with pytest.raises(ValueError, match="loads has neither a slider nor names"):
        widgets.explore(studies.SqdVariants, quick, draw, controls=("loads",))


def test_a_panel_without_a_kernel_is_a_figure():
    data, metadata = small()._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG") and "scv 10" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" not in data
    assert metadata["image/png"] == {"width": 820, "height": 470}
    data, _ = small(live=True)._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "image/png"} <= set(data)


def test_a_picture_is_as_sharp_as_the_screen():
    from io import BytesIO

    from PIL import Image

    panel = small()
    assert Image.open(BytesIO(panel.screen.frame)).size == (820, 470)
    panel.screen.density = 2.0
    assert Image.open(BytesIO(panel.screen.frame)).size == (1640, 940)


def test_labels_say_name_meaning_and_range():
    panel = small()
    for name, control in panel.controls.items():
        assert name in control.slider.tooltip and re.search(rf"{name}: .*; an? .* in [\[(]", control.field.tooltip)
        assert f"<b>{name}</b>" in control.children[0].value


@pytest.mark.slow
def test_nothing_grows_over_2000_updates():
    psutil = pytest.importorskip("psutil")
    panel = widgets.explore(studies.SqdVariants(loads=4, compared=["SQ"]), **panels.sqd_variants, live=True)
    values = np.tile(panel.controls["scv"].places, 30)

    def update(n):
        for value in values[:n]:
            panel.set(scv=float(value))
            panel.wait()

    update(100)
    before, threads = psutil.Process().memory_info().rss, threading.active_count()
    update(2000)
    assert psutil.Process().memory_info().rss - before < 50e6
    assert threading.active_count() <= threads
