"""Slides and site: what the notebooks promise, and, from runs of them, that every page is whole without network."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from browser import pages

from lbkit import batch, presets, studies

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import docstrings
import executed
import slides

# What lies outside the slide, is no figure drawn by vectors, or was not typeset. Notes are seen by the lecturer alone.
FAULTS = """() => {
  const slide = Reveal.getCurrentSlide(), box = slide.getBoundingClientRect(), faults = [];
  if (Math.abs(box.width - 1920) > 1 || Math.abs(box.height - 1080) > 1) faults.push(`${box.width} x ${box.height}`);
  for (const element of slide.querySelectorAll(":not(aside, aside *)")) {
    const r = element.getBoundingClientRect(), over = Math.max(box.left - r.left, box.top - r.top, r.right - box.right,
      r.bottom - box.bottom);
    if (r.width && r.height && over > 1) faults.push(`${element.tagName} ${element.textContent.slice(0, 40)}: ${over}`);
  }
  for (const image of slide.querySelectorAll("img"))
    if (!image.src.startsWith("data:image/svg+xml") || image.getBoundingClientRect().height < 300) faults.push("figure");
  if (slide.querySelector(".jp-InputArea-editor, .jp-OutputPrompt")) faults.push("code");
  if (slide.innerText.includes("$") || slide.querySelector(".MathJax_Error, .merror")) faults.push("equation");
  if (!slide.querySelector("h1, h2, h3")) faults.push("no heading");
  return faults;
}"""


@pytest.fixture(scope="module")
def runs(smoke_runs):
    """A folder with a smoke run of every study."""
    for study in studies.STUDIES:
        run = batch.run(presets.resolve(study, "smoke"), "smoke", out=smoke_runs)
        assert run.status == "done", run.error
    return smoke_runs


def made(script, out, runs):
    command = [sys.executable, str(ROOT / "docs" / script), str(out), "--preset", "smoke", "--runs", str(runs)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return out


@pytest.fixture(scope="module")
def shown(runs, tmp_path_factory):
    return made("slides.py", tmp_path_factory.mktemp("slides"), runs)


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory):
    return made("book.py", tmp_path_factory.mktemp("site") / "html", runs)


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.STUDIES)
def test_every_slide_is_whole_and_asks_nobody(study, shown):
    with pages(viewport={"width": 1920, "height": 1080}) as (open_page, strangers):
        page, errors = open_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: errors.append(request.url))
        page.goto((shown / f"{study}.html").as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()", timeout=60_000)
        places = page.evaluate("Reveal.getSlides().map(slide => Reveal.getIndices(slide))")
        faults = {}
        for n, place in enumerate(places):
            page.evaluate("place => Reveal.slide(place.h, place.v)", place)
            if found := page.evaluate(FAULTS):
                faults[n] = found
        typeset = page.evaluate("document.querySelectorAll('.MathJax_SVG').length")
        notes = page.evaluate("document.querySelectorAll('aside.notes').length")
        raw = page.evaluate("[...document.querySelectorAll('aside.notes')].some(e => e.textContent.includes('$'))")
        page.evaluate("""() => {  // a control: what the check must see
            const wide = document.createElement("p");
            wide.style.width = "3000px"; wide.textContent = "$x$";
            Reveal.getCurrentSlide().append(wide);
        }""")
        assert len(page.evaluate(FAULTS)) == 2
    assert not faults and not errors
    assert not [url for url in strangers if not url.startswith("file:")]
    assert len(places) >= 10 and typeset >= 10 and notes >= 8 and not raw


class Targets(HTMLParser):
    """What a page names: {kind: addresses}, kinds being links and parts that the browser loads; and its anchors."""

    def __init__(self, file):
        super().__init__()
        self.links, self.parts, self.anchors, self.sources = [], [], {""}, 0
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon", "shortcut icon"):
            self.parts.append(found["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in found:
            self.parts.append(found["src"])


def broken(folder):
    """Addresses in the pages of a folder that lead nowhere, and parts and fonts that another host would have to give."""
    files = {file: Targets(file) for file in folder.rglob("*.html") if "_static" not in file.parts}
    assert files
    for file, page in files.items():
        for address in page.parts + page.links:
            url = urlsplit(address)
            if url.scheme == "data" or (url.scheme not in ("", "file") and address not in page.parts):
                continue
            target = (file.parent / unquote(url.path)).resolve() if url.path else file
            known = not url.scheme and not url.netloc and target.is_file()
            if not known or (target in files and unquote(url.fragment) not in files[target].anchors):
                yield f"{file.relative_to(folder)}: {address}"
    for file in folder.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import )[\"']?(?!url)([^\"')]+)", file.read_text(encoding="utf-8")):
            if not address.startswith(("data:", "#")) and not (file.parent / urlsplit(address).path).is_file():
                yield f"{file.relative_to(folder)}: {address}"


@pytest.mark.slow
def test_the_site_is_whole(site):
    assert not list(broken(site))
    index = (site / "index.html").read_text(encoding="utf-8")
    assert all(f"studies/{study}.html" in index for study in studies.STUDIES)
    for study in studies.STUDIES:
        page = (site / "studies" / f"{study}.html").read_text(encoding="utf-8")
        assert page.count("<img") >= 7
        assert "seed = 1" in re.sub("<[^>]+>", "", page)


@pytest.mark.slow
def test_the_slides_name_what_is_there(shown):
    assert not list(broken(shown))


def test_a_broken_page_is_found(tmp_path):
    (tmp_path / "there.html").write_text("<p id='here'>")
    good = "<a href='there.html#here'></a><a href='https://example.org'></a><img src='data:,'>"
    (tmp_path / "page.html").write_text(good)
    assert not list(broken(tmp_path))
    for bad in ("<a href='gone.html'>", "<a href='there.html#gone'>", "<script src='https://example.org/x.js'>"):
        (tmp_path / "page.html").write_text(good + bad)
        assert len(list(broken(tmp_path))) == 1
    (tmp_path / "page.html").write_text(good)
    (tmp_path / "page.css").write_text("@import url(https://example.org/font.css);")
    assert len(list(broken(tmp_path))) == 1


@pytest.mark.slow
def test_pages_of_the_site_are_read_without_network(site):
    with pages() as (open_page, strangers):
        page = open_page()
        for name in ("index", "glossary", "api/lbkit.cavity", *(f"studies/{study}" for study in studies.STUDIES)):
            page.goto((site / f"{name}.html").as_uri())
            wanted = page.evaluate("document.querySelectorAll('.math').length")
            page.wait_for_function("n => document.querySelectorAll('.MathJax_SVG').length >= n", arg=wanted, timeout=60_000)
            assert not page.evaluate("document.querySelectorAll('.MathJax_Error, .merror').length")
            assert not page.evaluate("document.querySelectorAll('article details[open]').length")
    assert not [url for url in strangers if not url.startswith("file:")]


@pytest.mark.parametrize("study", studies.STUDIES)
def test_a_notebook_is_cut_into_slides(study):
    cells = nbformat.read(ROOT / "notebooks" / f"{study}.ipynb", as_version=4).cells
    kinds = [cell.metadata.get("slideshow", {}).get("slide_type", "skip") for cell in cells]
    assert kinds[0] == "slide" and cells[0].source.startswith("# ")
    for cell, kind in zip(cells, kinds, strict=True):
        if kind in ("slide", "subslide"):
            assert cell.cell_type == "markdown" and cell.source.startswith("#")
        if "parameters" in cell.metadata.get("tags", []) or cell.source.startswith("<details>"):
            assert kind == "skip"
    assert kinds.count("notes") >= 8 and kinds.count("slide") >= 8


def cell(kind, outputs=()):
    metadata = {"slideshow": {"slide_type": kind}}
    if outputs:
        made = [nbformat.v4.new_output("display_data", {mime: "x"}) for mime in outputs if mime]
        return nbformat.v4.new_code_cell("draw", metadata=metadata, outputs=made)
    return nbformat.v4.new_markdown_cell("# text", metadata=metadata)


def test_slides_show_the_figure_alone_and_no_empty_slide():
    cells = [
        cell("slide"), cell("notes"), cell("skip"),
        cell("slide"), cell("-", ["text/html", "image/svg+xml"]),
        cell("slide"), cell("-", [None]), cell("notes"),
        cell("subslide"), cell("-", ["text/html"]),
    ]  # fmt: skip
    page = slides.slides(nbformat.v4.new_notebook(cells=list(cells)))
    assert page.cells == [*cells[:2], *cells[3:5], *cells[8:]]
    assert [list(output.data) for output in cells[4].outputs] == [["image/svg+xml"]]


@pytest.fixture
def run_of_tags(tmp_path):
    """A folder of runs with one of tags, which says 7 where a panel would be; and the notebook in it."""
    study = presets.resolve("tags", "smoke")
    notebook = nbformat.read(ROOT / "notebooks" / "tags.ipynb", as_version=4)
    for made in notebook.cells:
        if made.cell_type == "code":
            data = {executed.WIDGET: {}, "text/plain": "7"}
            made.outputs = [nbformat.v4.new_output("display_data", data)]
    folder = tmp_path / "tags" / "smoke-1"
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / "notebook.ipynb")
    manifest = {"status": "done", "started": "2026-01-02T00:00:00+00:00", "parameters": study.values()}
    (folder / "result.json").write_text(json.dumps(manifest))
    return folder, notebook, manifest


def test_outputs_come_from_the_run_and_parameters_too(run_of_tags):
    folder, *_ = run_of_tags
    cells = [cell for cell in executed.executed("tags", folder).cells if cell.cell_type == "code"]
    shown = next(cell for cell in cells if "parameters" in cell.metadata.get("tags", []))
    assert shown.source == presets.resolve("tags", "smoke").cell() != studies.get("tags")().cell()
    assert {tuple(out.data) for cell in cells for out in cell.outputs} == {("text/plain",)}


def test_a_run_of_other_code_is_refused(run_of_tags):
    folder, notebook, _ = run_of_tags
    changed = next(cell for cell in reversed(notebook.cells) if cell.cell_type == "code")
    changed.source += "\n"
    nbformat.write(notebook, folder / "notebook.ipynb")
    with pytest.raises(ValueError, match="is not what this run had"):
        executed.executed("tags", folder)


def test_the_newest_finished_run_of_the_preset_is_taken(run_of_tags):
    folder, _, manifest = run_of_tags
    others = {
        "newer": {"started": "2026-01-03T00:00:00+00:00"},
        "failed": {"started": "2026-01-04T00:00:00+00:00", "status": "failed"},
        "other": {"started": "2026-01-05T00:00:00+00:00", "parameters": manifest["parameters"] | {"rho": 0.25}},
    }
    for name, changes in others.items():
        (folder.parent / name).mkdir()
        (folder.parent / name / "result.json").write_text(json.dumps(manifest | changes))
    assert executed.newest("tags", "smoke", folder.parents[1]).name == "newer"
    with pytest.raises(ValueError, match="lbkit run tags lecture"):
        executed.newest("tags", "lecture", folder.parents[1])


def test_a_docstring_becomes_restructured_text():
    lines = """Waits of rho*_h jobs, ``a_b``.

======  =========  =====
symbol  name       unit
======  =========  =====
lam     rate
        of all     1
======  =========  =====

By (1), with ::

    x_ = |y|

lam    arrival rate
tol    error of
       the wait

(1)  F = t      "sum"
(2)  x          no table
""".splitlines()
    assert "\n".join(docstrings.restructured(lines)).split("\n\n") == [
        r"Waits of rho\*\_h jobs, ``a_b``.",
        ".. list-table::\n   :header-rows: 1",
        "   * - symbol\n     - name\n     - unit\n   * - lam\n     - rate of all\n     - 1",
        "By (1), with",
        "::",
        "    x_ = |y|",
        "lam\n    arrival rate\ntol\n    error of the wait",
        "::",
        '    (1)  F = t      "sum"\n    (2)  x          no table\n',
    ]


def test_every_docstring_of_the_library_can_be_set():
    import ast

    from docutils.core import publish_doctree

    for file in (ROOT / "lbkit").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
                source = "\n".join(docstrings.restructured(text.splitlines()))
                publish_doctree(source, settings_overrides={"halt_level": 2, "report_level": 5})
