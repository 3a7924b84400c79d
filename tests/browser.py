"""JupyterLab, Voila and a headless Chromium for tests: all on this machine, with settings of their own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHOTS = ROOT / "runs" / "browser"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
RAN = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every(p => p.textContent.match('[0-9]'))"
IDLE = '.jp-NotebookPanel-toolbar .jp-Notebook-ExecutionIndicator[data-status="idle"]'


def chromium() -> str:
    """The browser's path; without one a test fails in CI and is skipped elsewhere."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    message = "no Chromium is installed: on Debian, apt-get install chromium"
    pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


@contextmanager
def pages(**options):
    """A function that opens pages, and the addresses on other machines that they asked for."""
    from playwright.sync_api import sync_playwright

    path, strangers = chromium(), []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}} | options)
        context.on("request", lambda request: strangers.append(request.url) if _strange(request.url) else None)
        try:
            yield context.new_page, strangers
        finally:
            browser.close()


@contextmanager
def jupyterlab(folder, scratch):
    """Address of a JupyterLab that serves the folder."""
    config = scratch / "config" / "labconfig"
    config.mkdir(parents=True)
    silent = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
    (config / "default_setting_overrides.json").write_text(json.dumps(silent))
    port = _free_port()
    options = [f"--ServerApp.root_dir={folder}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command = ["jupyterlab", "--no-browser", "--allow-root", "--IdentityProvider.token=t", *options]
    with _server(command, port, scratch):
        yield f"http://localhost:{port}/lab/tree/{{}}?token=t&reset"


@contextmanager
def voila(notebook, scratch):
    """Address of a Voila that serves the notebook, as ``make dashboard`` does."""
    port = _free_port()
    with _server(["voila", str(notebook), "--no-browser", "--template=lbkit", f"--port={port}"], port, scratch):
        yield f"http://localhost:{port}/"


def notebook(file, *sources) -> Path:
    """Write a notebook of the given code cells."""
    from nbformat import v4, write

    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    write(v4.new_notebook(cells=[v4.new_code_cell(source.strip()) for source in sources], metadata=kernel), file)
    return file


def run_all(page):
    """Run all cells of the notebook in JupyterLab and wait until every one has run."""
    from playwright.sync_api import TimeoutError

    page.evaluate("document.querySelectorAll('.jp-CodeCell .jp-InputPrompt').forEach(p => { p.textContent = '' })")
    for patience in (20_000, 20_000, 120_000):  # a click before the kernel is ready goes unheard
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        with suppress(TimeoutError):
            page.wait_for_function(RAN, timeout=patience)
            break
    page.wait_for_selector(IDLE, timeout=120_000)


def shot(page, name):
    """Keep a screenshot for a person to look at."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


@contextmanager
def _server(module, port, scratch):
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    environment = os.environ | {name: str(scratch / name.lower()) for name in places} | {
        "JUPYTER_CONFIG_DIR": str(scratch / "config"), "JUPYTER_PATH": str(ROOT / "dashboard"), "OMP_NUM_THREADS": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", *module]
    with (scratch / "server.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=scratch)
    try:
        _wait_for(port, process, scratch / "server.log")
        yield
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port, process, log):
    for _ in range(240):
        try:
            return urlopen(f"http://localhost:{port}/static/favicons/favicon.ico", timeout=5)
        except URLError as error:
            if getattr(error, "code", None):  # an answer, whatever it says
                return None
        except OSError:
            pass
        if process.poll() is not None:
            break
        time.sleep(0.25)
    raise RuntimeError(log.read_text())


def _free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def _strange(url):
    return not url.startswith(("data:", "blob:", "file:", "http://localhost:", "ws://localhost:", "chrome-extension:"))
