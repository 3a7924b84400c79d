"""Controls: what a person moves to change a parameter, made from what the study says of it.

A number has a slider, which moves on the parameter's own scale, and beside it a field for typed values, which need not
lie on it; a name has a menu, a list of names has boxes to tick. Each is one widget with a ``value``.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

import ipywidgets
import traitlets

from lbkit.studies import Study, did_you_mean, permitted

__all__ = ["Control", "make_controls"]

def make_controls(study: Study, names: Sequence[str] | None = None) -> dict[str, Control]:
    """A control for each of the named parameters, by default for those with a slider, set to the study's values.

    Raises ValueError for a name that is no parameter, and for a parameter without slider or names to choose from.
    """
    schemas = type(study).schemas()
    for name in names or ():
        if name not in schemas:
            raise ValueError(f"{study.notebook} has no parameter {name!r}{did_you_mean(name, schemas)}")
    names = [name for name, schema in schemas.items() if "slider" in schema] if names is None else names
    return {name: _kind(name, schemas[name])(name, schemas[name], getattr(study, name)) for name in names}


class Control(ipywidgets.VBox):
    """A parameter's name and meaning above what changes its ``value``."""

    value = traitlets.Any()

    def __init__(self, name, schema, value):
        meaning = ipywidgets.HTML(f"<b>{name}</b> {escape(schema['description'])}")
        meaning.add_class("lbkit-meaning")
        about = f"{name}: {schema['description']}; {permitted(schema)}"
        self.parts = self.make(name, schema, about)
        super().__init__([meaning, ipywidgets.HBox(self.parts, layout={"flex_flow": "row wrap"})], value=value)
        self.add_class(f"lbkit-{name}")

    def mark(self, wrong: bool) -> None:
        """Show that the value is refused, or is not."""
        (self.add_class if wrong else self.remove_class)("lbkit-wrong")


class Number(Control):
    """A slider over places on the parameter's scale, and a field for any other value."""

    def make(self, name, schema, about):
        self.places = _places(schema)
        whole = schema["type"] == "integer"
        self.slider = ipywidgets.IntSlider(
            max=len(self.places) - 1, readout=False, tooltip=about, layout={"width": "200px"}
        )
        self.field = (ipywidgets.IntText if whole else ipywidgets.FloatText)(tooltip=about, layout={"width": "100px"})
        self.slider.observe(self._on_slider, "value")
        self.field.observe(lambda change: self.set_trait("value", change.new), "value")
        return [self.slider, self.field]

    @traitlets.observe("value")
    def _on_value(self, change):
        self.field.value = change.new
        self.slider.value = self._nearest(change.new)

    def _on_slider(self, change):
        if change.new != self._nearest(self.value):
            self.value = self.places[change.new]

    def _nearest(self, value):
        return min(range(len(self.places)), key=lambda i: abs(self.places[i] - value))


class Name(Control):
    """A menu."""

    def make(self, name, schema, about):
        self.field = ipywidgets.Dropdown(options=schema["enum"], tooltip=about, layout={"width": "150px"})
        self.field.observe(lambda change: self.set_trait("value", change.new), "value")
        return [self.field]

    @traitlets.observe("value")
    def _on_value(self, change):
        self.field.value = change.new


class Names(Control):
    """Boxes to tick, at least one."""

    def make(self, name, schema, about):
        layout = {"width": "auto", "margin": "0 10px 0 2px"}
        self.boxes = {
            option: ipywidgets.Checkbox(description=option, tooltip=f"{name}: {option}", indent=False, layout=layout)
            for option in schema["items"]["enum"]
        }
        for box in self.boxes.values():
            box.observe(self._on_box, "value")
        return list(self.boxes.values())

    @traitlets.observe("value")
    def _on_value(self, change):
        for option, box in self.boxes.items():
            box.value = option in change.new

    def _on_box(self, change):
        option = change.owner.description
        if change.new != (option in self.value):
            self.value = tuple(name for name in self.boxes if (name in self.value) != (name == option))


def _kind(name, schema) -> type[Control]:
    if "slider" in schema:
        return Number
    if "enum" in schema:
        return Name
    if "enum" in schema.get("items", ()):
        return Names
    raise ValueError(f"{name} has neither a slider nor names to choose from, so it has no control")


def _places(schema) -> list[float]:
    """The values that a slider stops at, round ones on a curved scale, from the lowest to the highest."""
    low, high, step = schema["slider"]
    match schema["scale"]:
        case "linear":
            places = [float(f"{low + i * step:.9g}") for i in range(round((high - low) / step) + 1)]
        case "log":
            places = [float(f"{low * 10 ** (i * step):.2g}") for i in range(round(log10(high / low) / step) + 1)]
        case "gap":
            steps = round(log10((1 - low) / (1 - high)) / step) + 1
            places = [float(f"{1 - float(f'{(1 - low) * 10 ** (-i * step):.2g}'):.9g}") for i in range(steps)]
    kind = int if schema["type"] == "integer" else float
    return sorted({kind(min(max(place, low), high)) for place in places})
