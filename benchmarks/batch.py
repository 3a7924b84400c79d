"""What a batch costs beside papermill alone: 20 notebooks, one after the other, each a second or so of work.

    python benchmarks/batch.py [NOTEBOOKS]

lbkit      one ``lbkit run`` of a grid: a process, a lock, a manifest and a log for each point
papermill  ``papermill in.ipynb out.ipynb -f file`` for each, as in a shell loop
inside     papermill.execute_notebook for each in one process, where a notebook that breaks it takes the others along
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import nbformat

from lbkit.studies import SqdVariants

SOLVE = """
from lbkit import cavity, jobs, policies, record
from lbkit.studies import SqdVariants
study = SqdVariants.from_notebook(globals())
job = jobs.hyperexponential(scv=study.scv, f=study.f)
loads = [study.lam * k / 10 for k in range(1, 10)]
waits = [cavity.solve(lam=lam, job=job, policy=policies.lew(study.d)).mean_wait for lam in loads]
"""
KEEP = """
from matplotlib.figure import Figure
fig = Figure()
fig.subplots().plot(loads, waits)
record.figure(fig, "waits", {"lam": loads, "wait": waits})
record.claims([record.Claim("the mean wait", "", waits[-1], True)])
"""
INSIDE = """
import sys, papermill
for n in range(int(sys.argv[2])):
    papermill.execute_notebook(sys.argv[1], f"out-{n}.ipynb", {"seed": n}, progress_bar=False)
"""


def timed(*commands: list[str], **settings) -> tuple[float, float]:
    """Wall-clock and processor seconds of commands one after the other."""
    clock, before = perf_counter(), os.times()
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **settings)
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return perf_counter() - clock, spent


def main(count: int) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    tools = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notebooks").mkdir()
        tagged = nbformat.v4.new_code_cell(SqdVariants().cell(), metadata={"tags": ["parameters"]})
        cells = [tagged, *map(nbformat.v4.new_code_cell, (SOLVE, KEEP))]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        document = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
        nbformat.write(document, notebook := folder / "notebooks" / "sqd_variants.ipynb")
        (folder / "grid.yaml").write_text(f"study: sqd_variants\ngrid: {{seed: {list(range(count))}}}\n")
        here = f"import pathlib; from lbkit import cli, presets; presets.repository = lambda: pathlib.Path({name!r})"
        lbkit = [sys.executable, "-c", f"{here}; cli.main()", "run", "grid.yaml"]
        alone = [[tools / "papermill", "--no-progress-bar", notebook, f"out-{n}.ipynb", "-p", "seed", str(n)]
                 for n in range(count)]  # fmt: skip
        kept = os.environ | {"LBKIT_RUN_DIR": str(folder / "kept")}
        timed([*lbkit[:-1], "grid.yaml", "--out", "warm", "--dry-run"], alone[0], cwd=folder, env=kept)
        seconds = {
            "lbkit": timed(lbkit, cwd=folder),
            "papermill": timed(*alone, cwd=folder, env=kept),
            "inside": timed([sys.executable, "-c", INSIDE, str(notebook), str(count)], cwd=folder, env=kept),
        }
    for name, (wall, processor) in seconds.items():
        ratio = f"lbkit / this {seconds['lbkit'][0] / wall:.2f}, of the processor {seconds['lbkit'][1] / processor:.2f}"
        print(f"{name:<10} {wall:6.1f} s, processor {processor:6.1f} s; {ratio}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
