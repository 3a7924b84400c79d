"""Docstrings written for a terminal, as reStructuredText.

A docstring of lbkit is plain text: paragraphs, code between double backquotes, equations indented, and two kinds of
table, of which ``======`` lines rule the first and the second is a list of names with their meanings::

    lam    arrival rate, per unit time
    tol    permitted error of x (L1)
           and of the mean wait

Text is escaped, so that a star or an underscore of a formula stays what it is.
"""

import re
from itertools import groupby
from textwrap import dedent, indent

__all__ = ["restructured"]

ENTRY = re.compile(r"(\S+(?: \S+)*) {2,}(\S+(?: \S+)*)")


def restructured(lines: list[str]) -> list[str]:
    """The lines of a docstring, its indentation removed, as lines of reStructuredText."""
    out = []
    for filled, block in groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            out += [*_block(list(block)), ""]
    return out


def process(app, what, name, item, options, lines) -> None:
    """For the event autodoc-process-docstring."""
    lines[:] = restructured(lines)


def _block(lines: list[str]) -> list[str]:
    if lines[0].startswith("=="):
        return _table(lines)
    if entries := _entries(lines):
        return [line for name, meaning in entries for line in (_escaped(name), f"    {_escaped(meaning)}")]
    if all(line.startswith(" ") for line in lines) or any("   " in line.strip() for line in lines):
        return ["::", "", *indent(dedent("\n".join(lines)), "    ").splitlines()]
    cut = next((i for i, line in enumerate(lines) if i and line.startswith("  ")), len(lines))
    text = [_escaped(line.strip()) for line in lines[:cut]]
    text[-1] = text[-1].removesuffix(" ::").removesuffix(":") if text[-1].endswith("::") else text[-1]
    return text + (["", *_block(lines[cut:])] if lines[cut:] else [])


def _entries(lines: list[str]) -> list[tuple[str, str]]:
    """(name, meaning) for each entry of a list, or nothing if it is none."""
    entries: list[tuple[str, str]] = []
    columns = set()
    for line in lines:
        if entries and line.startswith("   "):
            entries[-1] = entries[-1][0], f"{entries[-1][1]} {line.strip()}"
            columns.add(len(line) - len(line.lstrip()))
        elif entry := ENTRY.fullmatch(line):
            entries.append(entry.groups())
            columns.add(entry.start(2))
        else:
            return []
    return entries if len(columns) == 1 else []


def _table(lines: list[str]) -> list[str]:
    """A table between ruled lines; a row without a first cell goes on with the row before."""
    columns = [match.start() for match in re.finditer("=+", lines[0])]
    ruled = [i for i, line in enumerate(lines) if line.startswith("==")]
    rows: list[list[str]] = []
    for line in (line for line in lines if not line.startswith("==")):
        cells = [line[a:b].strip() for a, b in zip(columns, [*columns[1:], None])]
        if rows and not cells[0]:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells)]
        else:
            rows.append(cells)
    out = [".. list-table::", f"   :header-rows: {int(len(ruled) > 2)}", ""]
    for row in rows:
        out += [f"   {'* -' if i == 0 else '  -'} {_escaped(cell)}" for i, cell in enumerate(row)]
    rest = lines[ruled[-1] + 1 :]
    return out + (["", *_block(rest)] if rest else [])


def _escaped(text: str) -> str:
    parts = re.split(r"(``.+?``)", text)
    return "".join(part if i % 2 else re.sub(r"([\\*`|_])", r"\\\1", part) for i, part in enumerate(parts))
