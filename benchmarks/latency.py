"""From a key on a slider to the changed picture, in milliseconds: a panel, ipympl and interact, in a real browser.

All draw the mean wait of SQ(5) at 100 loads, for sizes of varying scv, in JupyterLab; the panel also in Voila. A
picture counts as changed at the first frame of the browser in which one of its pixels has.
"""

import sys
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import browser  # noqa: E402

KEYS = 60
PANEL = """
from lbkit import panels, studies, widgets
widgets.explore(studies.SqdVariants(compared=["SQ"]), **panels.sqd_variants)
"""
CURVE = """
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
from lbkit import cavity, jobs, policies

lams = np.linspace(0.1, 0.995, 100)

def curve(scv):
    return [r.mean_wait for r in cavity.sweep(lams, jobs.hyperexponential(scv), policies.sq(5), tol=1e-8)]

slider = ipywidgets.FloatSlider(10, min=1, max=40, step=0.5)
"""
INTERACT = """
def show(scv):
    fig, ax = plt.subplots(figsize=(8.2, 4.7), dpi=100)
    ax.semilogy(lams, curve(scv))
    ax.set(xlabel="load", ylabel="E[W]", ylim=(1e-3, 100))
    plt.show()

ipywidgets.interact(show, scv=slider);
"""
IPYMPL = """
%matplotlib widget
fig, ax = plt.subplots(figsize=(8.2, 4.7), dpi=100)
line, = ax.semilogy(lams, curve(10))
ax.set(xlabel="load", ylabel="E[W]", ylim=(1e-3, 100))

def move(change):
    line.set_ydata(curve(change.new))
    fig.canvas.draw()

slider.observe(move, "value")
display(slider)
"""
PRESS = """
async ([picture, key]) => {
    const signature = () => {
        const node = document.querySelector(picture);
        if (!node) return null;
        if (node.tagName === "IMG") return node.complete ? node.src : null;
        const data = node.getContext("2d").getImageData(0, 0, node.width, node.height).data;
        const pixels = new Uint32Array(data.buffer);
        let sum = 7;
        for (let i = 0; i < pixels.length; i += 3) sum = (31 * sum + pixels[i]) | 0;
        return sum;
    };
    const frame = () => new Promise(requestAnimationFrame);
    const before = signature();
    const handle = document.querySelector(".noUi-handle");
    handle.focus();
    await frame();
    const begun = performance.now();
    handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    while (performance.now() - begun < 5000) {
        await frame();
        const now = signature();
        if (now !== null && now !== before) return performance.now() - begun;
    }
    return NaN;
}
"""


def measure(page, picture):
    """Times of single key presses, the first five left out."""
    page.wait_for_selector(picture, timeout=60_000)
    page.wait_for_timeout(2000)
    times = []
    for key in range(5 + KEYS):
        times.append(page.evaluate(PRESS, [picture, "ArrowRight" if key // 20 % 2 == 0 else "ArrowLeft"]))
        page.wait_for_timeout(250)
    return times[5:]


def in_lab(name, picture, *sources):
    with TemporaryDirectory() as folder, TemporaryDirectory() as scratch, browser.pages() as (new_page, _):
        browser.notebook(Path(folder) / "latency.ipynb", *sources)
        with browser.jupyterlab(folder, Path(scratch)) as address:
            page = new_page()
            page.goto(address.format("latency.ipynb"), timeout=120_000)
            page.wait_for_selector(browser.IDLE, timeout=60_000)
            browser.run_all(page)
            report(name, measure(page, picture))


def in_voila(name, picture, source):
    with TemporaryDirectory() as folder, TemporaryDirectory() as scratch, browser.pages() as (new_page, _):
        with browser.voila(browser.notebook(Path(folder) / "latency.ipynb", source), Path(scratch)) as address:
            page = new_page()
            page.goto(address, timeout=120_000)
            report(name, measure(page, picture))


def report(name, times):
    print(f"{name:22} median {median(times):6.1f}   95th percentile {quantiles(times, n=20)[-1]:6.1f}", flush=True)


if __name__ == "__main__":
    in_lab("panel, JupyterLab", ".lbkit-screen canvas", PANEL)
    in_voila("panel, Voila", ".lbkit-screen canvas", PANEL)
    in_lab("ipympl, JupyterLab", ".jupyter-matplotlib canvas", CURVE, IPYMPL)
    in_lab("interact, JupyterLab", ".jp-OutputArea img", CURVE, INTERACT)
