"""What is told of runs, and pages that show it without a network."""

import json
import sys
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import browser
import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

from lbkit import presets, report, worker
from lbkit.cli import app
from lbkit.record import Claim, claims_table

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
CLAIMS = (
    Claim("SQ(2) beats <random> & $\\rho$", "Section 5", 0.123456, True, "a note"),
    Claim("at every load", "7.5", 8.25, False),
    Claim("for every law", "Section 6", "not run", None),
)
NOTEBOOK = new_notebook(
    cells=[
        new_markdown_cell("# A title\n\nInline $\\lambda_1$ and\n\n$$\\sum_{i=1}^N \\frac{1}{i} \\tag{1}$$"),
        new_markdown_cell("## Gain & loss\n\nSee [arXiv](https://arxiv.org/abs/2011.08250)."),
        new_code_cell("import this\nx = 'in the code'", outputs=[new_output("stream", text="said\n")]),
        new_code_cell("plot()", outputs=[new_output("display_data", {"image/png": PNG, "text/plain": "Figure"})]),
        new_markdown_cell("## Claims"),
        new_code_cell("table", outputs=[new_output("display_data", {"text/html": claims_table(CLAIMS)._repr_html_()})]),
        new_code_cell("panel", outputs=[new_output("display_data", {
            "application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "VBox()",
        })]),
    ],
    metadata={"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"a": {"model_name": "VBoxModel"}}}}},
)  # fmt: skip


@pytest.fixture
def out(tmp_path):
    (folder := tmp_path / "rüns {x}").mkdir()
    return folder


@pytest.fixture
def lbkit():
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def keep(out, study="tags", preset="smoke", *, name=None, status="done", minute=0, claims=CLAIMS, **changes):
    """A run as it lies in its folder; changes are of parameters."""
    folder = out / study / (name or f"{preset}-{minute}")
    folder.mkdir(parents=True)
    try:
        values = presets.resolve(study, preset).values()
    except ValueError:
        values = presets.resolve(study).values()
    started = datetime(2026, 1, 2, 3, minute, tzinfo=UTC)
    manifest = {
        "study": study, "preset": preset, "parameters": values | changes, "seed": 1, "status": status,
        "started": started.isoformat(), "python": "3.11", "platform": "Linux", "packages": {"lbkit": "0.1.0"},
        "git": {"commit": "0123456789abcdef", "dirty": True},
    }  # fmt: skip
    if status not in ("planned", "running"):
        manifest |= {"seconds": 65.4, "cell": None, "error": None if status == "done" else "ValueError: too high\nmore"}
    worker.write(folder, manifest)
    nbformat.write(NOTEBOOK, folder / "notebook.ipynb")
    if claims:
        rows = [{name: getattr(claim, name) for name in ("text", "paper", "ours", "holds", "note")} for claim in claims]
        (folder / "claims.json").write_text(json.dumps(rows))
    return folder


# what is told


def test_runs_are_told_as_they_are(out):
    for minute, status in enumerate(["planned", "failed", "interrupted", "done"]):
        keep(out, status=status, minute=minute)
    dead, alive = (keep(out, status="running", minute=minute, claims=()) for minute in (4, 5))
    with worker.lock(alive):
        told = report.stored(out)
    assert [run.status for run in told] == ["planned", "failed", "interrupted", "done", "interrupted", "running"]
    assert [run.seconds for run in told[:5]] == [None, 65.4, 65.4, 65.4, None]
    assert told[5].seconds == pytest.approx((datetime.now(UTC) - told[5].started).total_seconds(), abs=5)
    assert worker.read(dead)["status"] == "running"  # looking changes nothing
    assert told[3].counts == {"holds": "1 holds", "does not hold": "1 does not hold", "not shown": "1 not shown"}
    assert told[4].counts == {} and told[3].commit == "0123456789 with changes"
    assert told[3].ended - told[3].started == timedelta(seconds=65.4)


def test_a_run_that_ends_while_it_is_looked_at(out, monkeypatch):
    folder = keep(out, status="running")

    def alive(folder):
        worker.write(folder, worker.read(folder) | {"status": "done", "seconds": 1.0})
        return False

    monkeypatch.setattr(report.batch, "alive", alive)
    assert [(run.folder, run.status, run.seconds) for run in report.stored(out)] == [(folder, "done", 1.0)]


def test_status_is_a_line_for_each_run(lbkit, out):
    keep(out, status="failed", name="smoke-0123")
    keep(out, "sqd_variants", "paper", minute=1, claims=CLAIMS[:1] * 12)
    keep(out, status="planned", minute=2, claims=())
    shown = lbkit("status", "--out", out)
    assert shown.exit_code == 0
    head, first, second, third = shown.output.splitlines()
    assert head.split() == ["study", "run", "status", "started", "took", "claims", "error"]
    assert all(text in first for text in ("smoke-0123  failed", "1 min 5 s", "ValueError: too high"))
    assert "more" not in first and "12 hold " in second and "sqd_variants  paper-1" in second
    assert third.split() == ["tags", "smoke-2", "planned"]


@pytest.mark.parametrize(
    "seconds, words",
    [(None, ""), (0.2, "0 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"), (3600, "1 h 0 min"), (7384, "2 h 3 min")],
)
def test_durations(seconds, words):
    assert report.duration(seconds) == words


@pytest.mark.parametrize("text", ["{}", "[]", "no", '{"study": "a", "preset": "a", "status": "done", "started": "x"}'])
def test_a_file_that_is_not_a_run(lbkit, out, text):
    (out / "a").mkdir()
    (out / "a" / "result.json").write_text(text)
    told = lbkit("status", "--out", out)
    assert told.exit_code == 2 and told.stderr.startswith(f"{out}/a/result.json: the file does not describe a run")


@pytest.mark.parametrize("command", ["status", "report"])
def test_no_folder_and_nothing_finished(lbkit, out, command):
    missing = lbkit(command, "--out", out / "none")
    assert missing.exit_code == 2 and "there is no folder" in missing.stderr and "'lbkit run" in missing.stderr
    keep(out, status="failed")
    assert lbkit(command, "--out", out).exit_code == (2 if command == "report" else 0)
    with pytest.raises(ValueError, match="no run in .* is finished"):
        report.gallery(out, out / "report")


# what is shown


class Page(HTMLParser):
    """What a page loads and what it links to."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.ids, self.open = [], [], set(), 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        self.open += tag == "details" and attributes.get("class") == "code" and "open" in attributes
        if tag == "a":
            self.links.append(attributes["href"])
        else:
            self.loads += [attributes[name] for name in ("src", "href", "data", "srcset") if name in attributes]


def test_pages_load_nothing_from_elsewhere(out):
    keep(out)
    first = report.gallery(out, to := out / "report")
    assert first == to / "index.html" and {file.name for file in to.glob("*.html")} == {"index.html", "tags-smoke.html"}
    for file in to.glob("*.html"):
        text = file.read_text(encoding="utf-8")
        page = Page(text)
        assert page.loads and all(load.startswith("data:") or (to / load).is_file() for load in page.loads)
        assert "@import" not in text and "url(" not in text
        for link in page.links:
            name, _, anchor = link.partition("#")
            assert link.startswith("https://arxiv.org/") or not name or (to / name).is_file()
            assert name or anchor in page.ids
    assert sum(file.stat().st_size for file in (to / "mathjax").rglob("*")) < 4e6
    stock, _ = HTMLExporter().from_notebook_node(NOTEBOOK)
    assert any(load.startswith("https://") for load in Page(stock).loads)  # what this test is there to see


def test_a_page_shows_the_notebook_with_its_code_folded_and_where_it_comes_from(out):
    keep(out, name="smoke-77", rho=0.625)
    text = (report.gallery(out, out / "report").parent / "tags-smoke.html").read_text(encoding="utf-8")
    assert f"data:image/png;base64,{PNG}" in text and "said" in text
    assert text.count('<details class="code">') == 4 and Page(text).open == 0
    assert "<summary>import this</summary>" in text and "'in the code'" in text
    assert "the notebook has a control panel" in text and "VBox" not in text
    assert '<a href="#Gain-&amp;-loss">Gain &amp; loss</a>' in text
    for origin in ("2 January 2026, 03:00 UTC in 1 min 5 s", "0123456789abcdef", "tags/smoke-77", "rho</dt><dd>0.625"):
        assert origin in text
    assert "with other rho" in text and ">1 does not hold<" in text


def test_the_first_page_shows_every_claim_with_its_verdict(out):
    keep(out)
    text = report.gallery(out, out / "report").read_text(encoding="utf-8")
    assert "SQ(2) beats &lt;random&gt; &amp; $\\rho$" in text
    assert all(f">{found}</td>" in text for found in ("Section 5", "0.1235", "7.5", "8.25", "not run", "a note"))
    for verdict in ("holds", "does not hold", "not shown"):
        assert f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>' in text


def test_each_study_and_preset_has_its_last_run_and_the_fullest_preset_speaks(out):
    def claim(text):
        return [Claim(text, "p. 1", 1.0, True)]

    keep(out, preset="smoke", minute=9, claims=claim("smoke"))
    keep(out, preset="lecture", minute=3, claims=claim("lecture, late"))
    keep(out, preset="lecture", minute=2, claims=claim("lecture, early"))
    keep(out, preset="lecture", minute=4, claims=claim("lecture, failed"), status="failed")
    keep(out, preset="lecture", minute=5, claims=claim("lecture, other"), rho=0.7)
    keep(out, "sqd_variants", "mine", minute=6, claims=claim("own file"), lam=0.7)
    keep(out, "sqd_variants", "figure_02", minute=7, claims=claim("figure"))
    first = report.gallery(out, to := out / "report")
    assert {file.name for file in to.glob("*.html")} == {
        "index.html", "tags-smoke.html", "tags-lecture.html", "sqd_variants-mine.html", "sqd_variants-figure_02.html",
    }  # fmt: skip
    text = first.read_text(encoding="utf-8")
    assert "<td>lecture, late</td>" in text and "<td>figure</td>" in text
    assert not any(f"<td>{other}</td>" in text for other in ("smoke", "lecture, early", "lecture, other", "own file"))
    assert "1 failed" in text and "with other" not in text
    keep(out, preset="paper", minute=1, claims=claim("paper"), rho=0.7)
    text = report.gallery(out, to).read_text(encoding="utf-8")
    assert "<td>paper</td>" in text and "with other rho" in text


def test_a_report_needs_mathjax(lbkit, out, monkeypatch):
    keep(out)
    monkeypatch.setitem(sys.modules, "nbclassic", None)
    failed = lbkit("report", "--out", out)
    assert failed.exit_code == 2 and "install nbclassic, as in lbkit[site]" in failed.stderr


def test_the_pages_in_a_browser_without_a_network(lbkit, out):
    keep(out)
    keep(out, "sqd_variants", minute=1)
    first = Path(lbkit("report", "--out", out, "--to", out / "pages").stdout.strip())
    assert first == out / "pages" / "index.html"
    for width, height in ((1920, 1080), (390, 844)):
        look(first, width, height)


def look(first, width, height):
    with browser.pages(offline=True, viewport={"width": width, "height": height}) as (new_page, strangers):
        page, errors = new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("response", lambda response: errors.append(response.url) if not response.ok else None)
        page.goto(first.as_uri())
        page.get_by_role("link", name="TAGS: task assignment").first.click()
        assert page.url.endswith("index.html#tags")
        page.locator("#tags").get_by_role("link", name="smoke").first.click()
        page.wait_for_selector(".MathJax_SVG_Display svg")
        page.wait_for_function("MathJax.Hub.queue.pending == 0")
        assert page.locator(".MathJax_SVG").count() == 3 and page.locator("text=\\lambda").count() == 0
        assert page.locator("merror").count() == 0
        code = page.locator("details.code pre").first
        assert not code.is_visible()
        page.get_by_role("button", name="code").click()
        assert code.is_visible()
        for _ in range(2):
            assert page.evaluate("document.documentElement.scrollWidth") == width, "the page scrolls sideways"
            page.go_back()
        assert not strangers and not errors
