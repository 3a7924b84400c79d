"""Browser libraries out of installed packages, so that slides and site ask nothing of the network.

MathJax 2 comes with nbclassic, reveal.js 4 with sphinx_revealjs. Equations become SVG, which needs no font files.
"""

from importlib.util import find_spec
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

__all__ = ["MATHJAX", "mathjax", "reveal"]

MATHJAX = {
    "jax": ["input/TeX", "output/SVG"],
    "extensions": ["tex2jax.js", "toMathML.js"],
    "TeX": {"extensions": ["AMSmath.js", "AMSsymbols.js"]},
    "SVG": {"font": "STIX-Web", "undefinedFamily": "sans-serif"},
    "messageStyle": "none",
    "showMathMenu": False,
}


def mathjax(folder: Path) -> None:
    """Put MathJax into ``folder``, which ``folder/MathJax.js`` starts."""
    unused = ignore_patterns("a11y", "mhchem*", "localization", "fonts/HTML-CSS", "HTML-CSS", "CommonHTML", "NativeMML")
    source = _package("nbclassic") / "static/components/MathJax"
    copytree(source, folder, ignore=unused, dirs_exist_ok=True)


def reveal(folder: Path) -> None:
    """Put into ``folder`` what a page needs of reveal.js: ``dist/`` with the theme white, and the plugin ``notes``."""
    source = _package("sphinx_revealjs") / "_static/revealjs"
    for part in ("dist", "dist/theme/fonts/source-sans-pro", "plugin/notes"):
        copytree(source / part, folder / part, ignore=ignore_patterns("theme", "*.map", "*.esm.js"), dirs_exist_ok=True)
    copy2(source / "dist/theme/white.css", folder / "dist/theme")


def _package(name: str) -> Path:
    if not (spec := find_spec(name)):
        raise ValueError(f"the package {name} is missing: install lbkit[site]")
    return Path(spec.origin).parent
