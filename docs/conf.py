"""Sphinx settings. The pages are built by ``make site``, which adds the notebooks (see book.py)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import docstrings
import offline

from lbkit import __version__

project, author, release = "lbkit", "The lbkit authors", __version__
html_title = "lbkit"
copyright = f"2026, {author}"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinxcontrib.bibtex"]

nb_execution_mode = "off"
nb_ipywidgets_js = {}  # pages hold no widgets, and these would come from elsewhere
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_update_mathjax = False
bibtex_bibfiles = ["references.bib"]

highlight_language = "none"

autodoc_typehints = "none"  # docstrings say shapes and units
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False, "show_navbar_depth": 1, "home_page_in_toc": True, "navbar_persistent": [],
}  # fmt: skip
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
mathjax_path = "mathjax/MathJax.js"
mathjax2_config = offline.MATHJAX | {"tex2jax": {"inlineMath": [["\\(", "\\)"]], "processClass": "math"}}


def setup(app):
    app.connect("autodoc-process-docstring", docstrings.process)
