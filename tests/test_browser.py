"""Panels as a person meets them: in JupyterLab and in Voila, in a real browser."""

import time

import browser
import pytest

pytestmark = pytest.mark.slow

SOURCE = '''
import time
from pathlib import Path
from lbkit import panels, studies, widgets

def slow(study):
    with Path({log!r}).open("a") as log:
        print(study.scv, file=log)
    time.sleep(0.25)
    yield from panels.waits(study)

study = studies.SqdVariants(compared=["SQ"], simulated_jobs=10**9, servers=[1000])
widgets.explore(study, **panels.sqd_variants | dict(compute=slow))
'''


@pytest.fixture(scope="module", params=["lab", "voila"])
def opened(request, tmp_path_factory):
    """(host, open a fresh page with a panel, log of the values that were solved for)."""
    folder, scratch = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("server")
    log = folder / "solves.txt"
    notebook = browser.notebook(folder / "panel.ipynb", SOURCE.format(log=str(log)))
    host = request.param
    server = browser.jupyterlab(folder, scratch) if host == "lab" else browser.voila(notebook, scratch)
    with browser.pages() as (new_page, strangers), server as address:

        def open_page():
            page = new_page()
            page.goto(address.format(notebook.name), timeout=120_000)
            if host == "lab":
                page.wait_for_selector(".jp-NotebookPanel", timeout=60_000)
                page.wait_for_selector(browser.IDLE, timeout=60_000)
                browser.run_all(page)
            settle(page)
            return page

        yield host, open_page, log
    assert not strangers, "a page asked other machines for something"


@pytest.fixture
def page(opened):
    page = opened[1]()
    yield page
    page.close()


def settle(page, state="done"):
    try:
        page.wait_for_selector(f'.lbkit-screen[data-state="{state}"] canvas[data-frame]', timeout=60_000)
    except Exception:
        browser.shot(page, "not_settled")
        raise


def picture(page):
    return page.locator(".lbkit-screen canvas").evaluate("canvas => canvas.toDataURL()")


def drag(page, control, events=40, pause=0.02):
    """Drag a slider to the right in so many events, and let go."""
    handle = page.locator(f".{control} .noUi-handle").bounding_box()
    x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for event in range(1, events + 1):
        page.mouse.move(x + 2.5 * event, y)
        time.sleep(pause)
    page.mouse.up()


def is_blank(page):
    return page.locator(".lbkit-screen canvas").evaluate(
        """canvas => {
            const pixels = new Uint32Array(
                canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
            return new Set(pixels).size < 10;
        }"""
    )


def test_a_drag_of_40_events_takes_a_few_solves_and_ends_at_the_last_value(opened, page):
    host, _, log = opened
    before, solved = picture(page), len(log.read_text().splitlines())
    begun = time.monotonic()
    drag(page, "lbkit-scv")
    page.wait_for_timeout(300)
    settle(page)
    elapsed = time.monotonic() - begun
    values = log.read_text().splitlines()[solved:]
    typed = page.locator(".lbkit-scv input").input_value()
    assert 1 <= len(values) <= min(12, 2 + elapsed / 0.25)
    assert float(values[-1]) == float(typed) > 15
    assert f"scv {float(typed):g}," in page.locator(".lbkit-screen canvas").get_attribute("aria-label")
    assert picture(page) != before and not is_blank(page)
    browser.shot(page, f"{host}_after_a_drag")


def test_a_bad_value_is_named_and_the_last_figure_stays(opened, page):
    before = picture(page)
    page.locator(".lbkit-d input").fill("1000")
    page.keyboard.press("Tab")
    settle(page, "stale")
    assert "d must be an integer in [1, 100], not 1000" in page.locator('.lbkit-screen [role="alert"]').inner_text()
    assert page.locator(".lbkit-d.lbkit-wrong").count() == 1 and picture(page) == before
    browser.shot(page, f"{opened[0]}_bad_value")
    page.get_by_role("button", name="Reset").click()
    settle(page)
    assert page.locator(".lbkit-d input").input_value() == "5"
    assert not page.locator('.lbkit-screen [role="alert"]').inner_text()


def test_a_simulation_stops_within_a_second(opened, page):
    page.get_by_role("button", name="Simulate").click()
    page.wait_for_function("document.querySelector('.lbkit-screen progress').value > 0", timeout=60_000)
    browser.shot(page, f"{opened[0]}_simulating")
    begun = time.monotonic()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_function("document.querySelector('.lbkit-screen [role=status]').textContent.includes('stopped')")
    assert time.monotonic() - begun < 1
    settle(page)


def test_everything_is_reached_and_moved_by_keyboard(opened, page):
    page.locator("select").first.focus()
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate(
                "(e => e.getAttribute('role') || e.textContent || e.title || e.type)(document.activeElement)"
            )
        )
    assert names.count("slider") >= 6 and any("Reset" in name for name in names), names
    before = page.locator(".lbkit-lam input").input_value()
    page.get_by_role("slider", name="lam: load").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"document.querySelector('.lbkit-lam input').value > {before}")
    settle(page)
    assert page.get_by_role("slider", name="lam: load").get_attribute("aria-valuetext") == "0.82"
    assert page.get_by_role("spinbutton", name="scv: squared").count() == 1


def test_a_page_wears_its_theme(opened, page):
    assert page.evaluate("getComputedStyle(document.body).getPropertyValue('--jp-ui-font-family')")
    assert page.locator(".lbkit-scv input").evaluate("input => getComputedStyle(input).borderTopWidth") == "1px"


def test_downloads_and_copies(opened, page):
    for kind, start in {"PDF": b"%PDF", "SVG": b"<?xml", "PNG": b"\x89PNG", "CSV": b"policy,lam"}.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"sqd_variants.{kind.lower()}"
        assert download.value.path().read_bytes().startswith(start)
    page.get_by_role("button", name="Copy as YAML").click()
    page.wait_for_selector(".lbkit-screen details[open] pre")
    assert "scv: 10.0" in page.locator(".lbkit-screen pre").inner_text()


def test_the_page_survives_a_reload(opened, page):
    page.reload()
    if opened[0] == "lab":
        page.wait_for_selector(".jp-NotebookPanel", timeout=60_000)
        page.wait_for_selector(browser.IDLE, timeout=60_000)
        browser.run_all(page)
    settle(page)
    assert not is_blank(page)
    drag(page, "lbkit-scv", events=10)
    page.wait_for_timeout(300)
    settle(page)
    assert float(page.locator(".lbkit-scv input").input_value()) > 10


def test_run_all_while_a_hand_drags_leaves_no_blank_figure(opened, page):
    if opened[0] != "lab":
        pytest.skip("Voila runs all cells once")
    drag(page, "lbkit-scv", events=15)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    for _ in range(3):
        if page.locator(".lbkit-scv .noUi-handle").count():
            drag(page, "lbkit-scv", events=5)
    page.wait_for_selector(browser.IDLE, timeout=60_000)
    settle(page)
    assert page.locator(".lbkit-screen canvas").count() == 1 and not is_blank(page)


def test_a_restarted_kernel_runs_all_again(opened, page):
    if opened[0] != "lab":
        pytest.skip("a page of Voila has a kernel of its own")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text("Restart Kernel and Run All Cells", exact=False).first.click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.wait_for_timeout(1500)
    page.wait_for_selector(browser.IDLE, timeout=60_000)
    settle(page)
    assert not is_blank(page)
