"""Latest: of many requests the newest is served, one at a time, in the background.

What comes in while a request is served waits; of those that wait only the newest is kept. The thread ends when nothing
is left to do, so that an idle panel costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread
from typing import Any

__all__ = ["Latest"]


class Latest:
    """Serves requests, each by a call of ``serve``."""

    def __init__(self, serve: Callable[[Any], None]):
        self.serve, self.request, self.thread, self.news = serve, None, None, Condition()

    @property
    def waiting(self) -> bool:
        """Whether a newer request has come in."""
        return self.request is not None

    def ask(self, request) -> None:
        """Serve this request next, whatever came in before."""
        with self.news:
            self.request = request
            self.news.notify_all()
            if self.thread is None:
                self.thread = Thread(target=self._work, name="lbkit panel", daemon=True)
                self.thread.start()

    def rests(self, seconds: float) -> bool:
        """Whether no request comes in for so long."""
        with self.news:
            return not self.news.wait_for(lambda: self.waiting, seconds)

    def wait(self, timeout: float) -> None:
        """Until nothing is left to do; TimeoutError after so many seconds."""
        with self.news:
            if not self.news.wait_for(lambda: self.thread is None, timeout):
                raise TimeoutError(f"the panel is still at work after {timeout:g} s")

    def _work(self):
        while True:
            with self.news:
                request, self.request = self.request, None
                if request is None:
                    self.thread = None
                    self.news.notify_all()
                    return
            self.serve(request)
