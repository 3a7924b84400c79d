"""Widgets: a study under sliders, beside its figure.

``explore(Study, compute, draw)`` makes a control for each parameter that has a slider or a list of names, and redraws
the figure as they move::

    from lbkit import panels, studies, widgets
    widgets.explore(studies.SqdVariants, **panels.sqd_variants)

A panel computes nothing itself. ``compute(study)`` gives a tidy table, or yields better and better ones; ``draw(table,
axes)`` shows it, moving the artists that are there, and says whether a legend came or went. What takes longer waits
until the hand rests: ``simulate(study, tell)`` yields tables of simulated points, which ``mark(table, axes)`` draws;
``tell(share)`` shows how far it is, and ends it by KeyboardInterrupt once it is stopped or no longer wanted.

While a table is computed only the newest of the values that came in is kept, so a panel follows the hand at whatever
pace it can. A bad value or a solver's sentence is shown below the figure, which stays; without a browser, in a run of
a notebook, it is raised instead, and all of this happens at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from inspect import isgeneratorfunction
from io import BytesIO, StringIO
from threading import Event, RLock
from time import perf_counter
from typing import Any

import ipywidgets
from matplotlib.figure import Figure

from lbkit import presets
from lbkit.controls import make_controls
from lbkit.latest import Latest
from lbkit.screen import DOTS, DRAWING, Camera, Screen
from lbkit.studies import ParameterError, Study

__all__ = ["Panel", "explore"]

REST = 0.35  # seconds without a new value after which a simulation starts
FILES = {"pdf": "application/pdf", "svg": "image/svg+xml", "png": "image/png", "csv": "text/csv"}


def explore(
    study: type[Study] | Study, compute: Callable, draw: Callable, *, simulate: Callable | None = None,
    mark: Callable | None = None, controls: Sequence[str] | None = None, columns: int = 1, size=(820, 470),
    public: bool = False, live: bool | None = None,
) -> Panel:  # fmt: skip
    """A panel of the study, its first figure drawn.

    study     where its parameters start; a class stands for its defaults
    compute   study -> tidy table, or an iterator of better and better ones
    draw      (table, axes) -> whether a legend came or went; axes has ``columns`` entries
    simulate  (study, tell) -> iterator of tables, mark: (table, axes) -> None
    controls  names of the parameters that get one; default: all with a slider
    size      of the figure, in CSS pixels
    public    keep typed values within the sliders' ranges, for panels that anyone may use
    live      follow the hand and show errors; default: only in a kernel that no run of a notebook has started

    Raises ValueError for a control that does not exist, and whatever compute and draw raise at the start.
    """
    return Panel(study, compute, draw, simulate, mark, controls, columns, size, public, live)


class Panel(ipywidgets.HBox):
    """Controls beside a figure (see the module).

    study, table, points   what is shown: the parameters, the table, and the simulated points, or None
    figure                 the Matplotlib figure
    controls               {name: control}, each with a ``value``
    buttons                {name: button}
    screen                 the picture, and what is said below it
    """

    def __init__(self, study, compute, draw, simulate, mark, controls, columns, size, public, live):
        super().__init__()
        self.start = self.study = study() if isinstance(study, type) else study
        self.compute, self.draw, self.simulate, self.mark = compute, draw, simulate, mark
        self.public, self.live = public, _watched() if live is None else live
        self.table = self.points = self.problem = None
        self.figure = Figure((size[0] / DOTS, size[1] / DOTS))
        self.camera = Camera(self.figure)
        self.axes = self.figure.subplots(1, columns, squeeze=False)[0]
        self.screen = Screen(width=size[0], height=size[1])
        self.screen.observe(lambda _: self._paint(), "density")
        self.controls = make_controls(self.start, controls)
        for name, control in self.controls.items():
            control.observe(partial(self._on_control, name), "value")
        self.buttons = self._buttons()
        self.menu = _menu(self.study.notebook)
        self.menu.observe(self._on_preset, "value")
        self._stop, self._worker, self._hand, self._showing = Event(), Latest(self._refresh), RLock(), False
        tools = ipywidgets.HBox(list(self.buttons.values()), layout={"flex_flow": "row wrap"})
        left = ipywidgets.VBox([self.menu, *self.controls.values()], layout={"width": "330px", "flex": "0 0 auto"})
        self.children = [left, ipywidgets.VBox([self.screen, tools], layout={"flex": "1 1 520px", "min_width": "0"})]
        self.add_class("lbkit-panel")
        self._refresh(self.start, first=True)

    # what a person does

    def set(self, **parameters: Any) -> None:
        """Move to other parameters, as the controls do."""
        with self._hand:
            try:
                wanted = type(self.study)(**self.study.values() | parameters)
                if self.public:
                    self._require_sliders(wanted)
            except ParameterError as error:
                self._refuse(error)
                return
            self.study, self.problem = wanted, None
            self._show_values()
            self._ask()

    def reset(self) -> None:
        """Back to where the panel started."""
        self.set(**self.start.values())

    def freeze(self, on: bool = True) -> None:
        """Keep the present curves, pale, for comparison; or let them go."""
        with DRAWING:
            for ax in self.axes:
                for line in [line for line in ax.lines if line.get_gid() == "frozen"]:
                    line.remove()
                for line in [line for line in ax.lines if line.get_gid() == "curve"] if on else ():
                    look = {"color": line.get_color(), "ls": line.get_linestyle(), "lw": 3 * line.get_linewidth()}
                    ax.plot(*line.get_data(), **look, alpha=0.22, gid="frozen", zorder=1, scalex=False, scaley=False)
            self._say(self.screen.state, f"wide and pale: {self._values()}" if on else "")
            self._paint()

    def stop(self) -> None:
        """End the simulation that is under way."""
        self._stop.set()

    def file(self, kind: str) -> bytes:
        """The figure as "pdf", "svg" or "png", or its data as "csv"."""
        if kind == "csv":
            from pandas import DataFrame, concat

            tables = [DataFrame(self.table)] + ([] if self.points is None else [DataFrame(self.points)])
            out = StringIO()
            concat(tables).to_csv(out, index=False)
            return out.getvalue().encode()
        out, about = BytesIO(), {"Title": self.screen.alt, "Creator": f"lbkit {version('lbkit')}"}
        with DRAWING:
            self.figure.savefig(out, format=kind, dpi=2 * DOTS, metadata=about)
        return out.getvalue()

    def yaml(self) -> str:
        """The parameters as a file that ``lbkit run`` takes."""
        from ruamel.yaml import YAML

        out = StringIO()
        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style = None
        yaml.sort_base_mapping_type_on_output = False
        yaml.dump({"study": self.study.notebook} | self.study.values(), out)
        return out.getvalue()

    def code(self) -> str:
        """The parameters and the table as lines of Python."""
        kind, compute = type(self.study), self.compute
        defaults = kind().values()
        said = ", ".join(f"{name}={value!r}" for name, value in self.study.values().items() if value != defaults[name])
        table = "*_, table" if isgeneratorfunction(compute) else "table"
        return (
            f"from {compute.__module__} import {compute.__name__}\nfrom {kind.__module__} import {kind.__name__}\n\n"
            f"study = {kind.__name__}({said})\n{table} = {compute.__name__}(study)\n"
        )

    def wait(self, timeout: float = 60.0) -> None:
        """Until nothing is left to do; TimeoutError after so many seconds."""
        self._worker.wait(timeout)

    def _repr_mimebundle_(self, **kwargs):
        """The panel, and its figure for pages without a kernel; the figure alone in a run of a notebook."""
        bundle = super()._repr_mimebundle_(**kwargs) if self.live else {"text/plain": self.screen.alt}
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        size = {"width": self.screen.width, "height": self.screen.height}
        return data | {"image/png": bytes(self.screen.frame)}, metadata | {"image/png": size}

    # from values to a figure

    def _on_control(self, name, change):
        if not self._showing:
            self.set(**{name: change.new})

    def _on_preset(self, change):
        if change.new:
            try:
                values = presets.resolve(self.study.notebook, change.new).values()
            except ValueError as error:
                self._refuse(error)
            else:
                self.set(**{name: values[name] for name in (self.controls if self.public else values)})

    def _require_sliders(self, wanted):
        """Hold parameters to the ranges of their sliders."""
        schemas, problems = type(wanted).schemas(), {}
        for name, (low, high, _) in {name: s["slider"] for name, s in schemas.items() if "slider" in s}.items():
            if not low <= getattr(wanted, name) <= high:
                problems[name] = f"{name} must lie in [{low:g}, {high:g}] here, not {getattr(wanted, name):g}"
        problems |= {
            name: f"{name} cannot be changed here"
            for name in schemas
            if name not in self.controls and getattr(wanted, name) != getattr(self.start, name)
        }
        if problems:
            raise ParameterError(problems)

    def _show_values(self):
        self._showing = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(self.study, name)
                control.mark(False)
        finally:
            self._showing = False

    def _refuse(self, error):
        """Say what is wrong with a value; the last good figure stays."""
        if not self.live:
            raise error
        self.problem, problems = str(error).replace(f"{self.study.notebook}: ", ""), getattr(error, "problems", {})
        for name, control in self.controls.items():
            control.mark(name in problems)
        self._say("stale")

    def _ask(self):
        self._stop.set()
        if self.live:
            self._say("busy")
            self._worker.ask(self.study)
        else:
            self._refresh(self.study)

    def _refresh(self, study, first=False):
        """Compute and draw; then, if the hand rests, simulate."""
        begun = perf_counter()
        try:
            tables = self.compute(study)
            for table in tables if isinstance(tables, Iterator) else [tables]:
                if self._worker.waiting:
                    return
                with DRAWING:
                    self.table, self.points = table, None
                    self._clear_marks()
                    self._lay_out(self.draw(table, self.axes) or first)
                    first = False
                    self._paint(study)
            self._say("done", f"{1000 * (perf_counter() - begun):.0f} ms")
            if self.simulate and self.buttons["simulate"].value:
                self._simulate(study)
        except Exception as error:
            if first or not self.live:
                raise
            if not isinstance(error, ValueError):
                traceback.print_exc(file=sys.__stderr__)
                error = f"{type(error).__name__}: {error}"
            if study is self.study:
                self._refuse(error)

    def _simulate(self, study):
        if self.live and not self._worker.rests(REST):
            return
        self._stop.clear()
        begun, stop = perf_counter(), self.buttons["stop"]

        def tell(share):
            if self._stop.is_set() or self._worker.waiting:
                raise KeyboardInterrupt
            self._say("busy", "simulating", share)

        stop.disabled = False
        try:
            tell(0.0)
            for points in self.simulate(study, tell):
                with DRAWING:
                    self.points = points
                    self._clear_marks()
                    self.mark(points, self.axes)
                    self._paint(study)
                tell(self.screen.progress)
            self._say("done", f"simulated in {perf_counter() - begun:.1f} s")
        except KeyboardInterrupt:
            self._say("busy" if self._worker.waiting else "done", "simulation stopped")
        finally:
            stop.disabled = True

    def _clear_marks(self):
        for ax in self.axes:
            for container in ax.containers[:]:
                container.remove()

    def _lay_out(self, anew):
        """Place axes and legends, which takes as long as all the rest, only if there is something new to place."""
        if anew:
            self.figure.set_layout_engine("constrained")
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")

    def _paint(self, study=None):
        with DRAWING, self.screen.hold_sync():
            self.screen.frame = self.camera.picture(self.screen.density)
            if study:
                self.screen.alt = f"{study.title}. {self._values(study)}"

    def _say(self, state, said="", progress=-1.0):
        """How the figure stands; a problem keeps it from being up to date."""
        with DRAWING, self.screen.hold_sync():
            self.screen.state, self.screen.said, self.screen.progress = state, said, progress
            self.screen.problem = self.problem or ""
            if self.problem:
                self.screen.state, self.screen.said = "stale", "the figure shows the last good values"

    def _values(self, study=None):
        return ", ".join(f"{name} {_short(getattr(study or self.study, name))}" for name in self.controls)

    def _buttons(self):
        """Buttons, each a word that says what it does."""
        layout = {"width": "auto"}

        def button(word, hint, press):
            made = ipywidgets.Button(description=word, tooltip=hint, layout=layout)
            made.on_click(lambda _: press())
            return made

        freeze = ipywidgets.ToggleButton(description="Freeze", tooltip="keep these curves, pale", layout=layout)
        freeze.observe(lambda change: self.freeze(change.new), "value")
        made = {"reset": button("Reset", "back to where the panel started", self.reset), "freeze": freeze}
        if self.simulate:
            wanted = ipywidgets.ToggleButton(description="Simulate", tooltip="whenever the hand rests", layout=layout)
            wanted.observe(lambda change: self._ask() if change.new else self.stop(), "value")
            stop = button("Stop", "end the simulation", self.stop)
            stop.disabled = True
            made |= {"simulate": wanted, "stop": stop}
        for kind, media in FILES.items():
            made[kind] = button(kind.upper(), f"download as {kind.upper()}", partial(self._save, kind, media))
        copies = {"yaml": ("Copy as YAML", self.yaml), "code": ("Copy as code", self.code)}
        for name, (word, text) in copies.items():
            made[name] = button(word, f"{word.lower()}, to the clipboard", partial(self._copy, word, text))
        return made

    def _save(self, kind, media):
        self.screen.save(f"{self.study.notebook}.{kind}", media, self.file(kind))

    def _copy(self, title, text):
        self.screen.copy(title.replace("Copy", "Copied"), text())


def _watched() -> bool:
    """Whether somebody sees the panel: in a kernel, and not in a run of a notebook."""
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel") and "LBKIT_RUN_DIR" not in os.environ


def _menu(study: str) -> ipywidgets.Dropdown:
    """The study's presets, as far as they are at hand."""
    try:
        names = list(presets.files(study))
    except ValueError:
        names = []
    options = [("presets", ""), *((name, name) for name in names)]
    return ipywidgets.Dropdown(options=options, tooltip=f"presets of {study}", layout={"width": "auto"})


def _short(value) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_short, value))
    return value if isinstance(value, str) else f"{value:g}"
