"""The picture in the README: the panel of SQ(d) in a browser, as ``make dashboard`` serves it.

    python docs/picture.py docs/panel.png
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import browser  # noqa: E402

SOURCE = """
from lbkit import panels, studies, widgets
study = studies.SqdVariants(servers=[1000], compared=["SQ", "SQ-RTB", "SQ-RE", "LAS", "RE", "LEW"])
widgets.explore(study, **panels.sqd_variants)
"""


def main(file: Path) -> None:
    with TemporaryDirectory() as scratch, browser.pages(viewport={"width": 1240, "height": 800}) as (new_page, _):
        notebook = browser.notebook(Path(scratch) / "panel.ipynb", SOURCE)
        with browser.voila(notebook, Path(scratch)) as address:
            page = new_page()
            page.goto(address, timeout=120_000)
            page.wait_for_selector('[data-state="done"] canvas[data-frame]', timeout=60_000)
            page.get_by_role("button", name="Freeze").click()
            page.locator(".lbkit-scv input").fill("25")
            page.keyboard.press("Tab")
            page.get_by_role("button", name="Simulate").click()
            page.get_by_text("simulated in").wait_for(timeout=60_000)
            page.locator(".lbkit-panel").screenshot(path=file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
