"""Screen: a Matplotlib figure on a page, and the lines below it that say how it stands.

A frame is a PNG of the whole figure, painted on a canvas of fixed size, so that nothing flickers, nothing is stretched
and nothing grows with the number of frames. Matplotlib's state is never touched: figures are drawn object by object on
an Agg canvas, and one at a time, for its caches are shared by all threads.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from threading import RLock

import anywidget
import traitlets
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

__all__ = ["DRAWING", "Camera", "Screen"]

DRAWING = RLock()  # held by whoever touches a figure
DOTS = 110  # CSS pixels an inch: text of ten points is some 15 pixels high


class Screen(anywidget.AnyWidget):
    """What a browser shows of a panel.

    frame          PNG of the figure
    width, height  its size on the page, in CSS pixels; density: device pixels in one of these, told by the browser
    alt            the figure in words
    state          "busy", "done" or "stale"; said: a remark on it; problem: a sentence, or nothing
    progress       share done of a simulation, negative without one
    """

    _esm = Path(__file__).with_suffix(".js")
    _css = Path(__file__).with_suffix(".css")

    frame = traitlets.Bytes().tag(sync=True)
    width = traitlets.Int(820).tag(sync=True)
    height = traitlets.Int(470).tag(sync=True)
    density = traitlets.Float(1.0).tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)
    state = traitlets.Unicode("busy").tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)
    problem = traitlets.Unicode().tag(sync=True)
    progress = traitlets.Float(-1.0).tag(sync=True)

    def save(self, name: str, kind: str, content: bytes) -> None:
        """Have the browser download a file of the given media type."""
        self.send({"save": name, "type": kind}, [content])

    def copy(self, title: str, text: str) -> None:
        """Have the browser put a text on the clipboard, and show it."""
        self.send({"copy": text, "title": title})


class Camera:
    """Takes pictures of a figure, of which mostly the curves change.

    All else, the furniture, is drawn anew only where some of it has changed, and copied otherwise. Curves are the lines
    that ``plots.redraw`` moves, marks, and lines with the gid "here". They are "animated" in Matplotlib's sense, so
    that drawing leaves them out, and saving does not. Use it with DRAWING held.
    """

    def __init__(self, figure):
        self.figure, self.canvas = figure, FigureCanvasAgg(figure)
        self.furniture = self.empty = None

    def picture(self, density: float = 1.0) -> bytes:
        """PNG of the figure, DOTS CSS pixels an inch."""
        self.figure.set_dpi(DOTS * density)
        moving = [artist for ax in self.figure.axes for artist in _moving(ax)]
        for artist in moving:
            artist.set_animated(True)
        furniture = [DOTS * density, *map(_furniture, self.figure.axes)]
        if furniture != self.furniture:
            self.canvas.draw()
            self.furniture, self.empty = furniture, self.canvas.copy_from_bbox(self.figure.bbox)
        self.canvas.restore_region(self.empty)
        for artist in sorted(moving, key=Artist.get_zorder):
            artist.axes.draw_artist(artist)
        png = BytesIO()
        size, pixels = self.canvas.get_width_height(), self.canvas.buffer_rgba()
        Image.frombuffer("RGBA", size, pixels, "raw", "RGBA", 0, 1).convert("RGB").save(png, "png", compress_level=1)
        return png.getvalue()


def _moving(ax):
    yield from (line for line in ax.lines if line.get_gid() in ("curve", "here"))
    for container in ax.containers:
        yield from container.get_children()


def _furniture(ax):
    """What of the axes does not move, as far as anything here changes it."""
    words = ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), ax.get_legend()
    frame = ax.get_position().bounds, ax.get_xlim(), ax.get_ylim(), ax.get_xscale(), ax.get_yscale()
    return words, frame, [line for line in ax.lines if line.get_gid() == "frozen"]
