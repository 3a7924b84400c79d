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
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

__all__ = ["DRAWING", "Screen", "picture"]

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


def picture(figure, density: float = 1.0) -> bytes:
    """PNG of a figure, DOTS CSS pixels an inch; call it with DRAWING held."""
    figure.set_dpi(DOTS * density)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    png = BytesIO()
    pixels = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    pixels.convert("RGB").save(png, "png", compress_level=1)
    return png.getvalue()
