"""Control flow of frameworks that compute at once: plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class EagerLoops:
    def while_loop(self, cond: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
        while bool(cond(state)):
            state = body(state)
        return state

    def scan(self, body: Callable[[Any], Any], state: Any, length: int) -> Any:
        for _ in range(length):
            state = body(state)
        return state

    def cond(
        self, which: Any, then: Callable[[Any], Any], otherwise: Callable[[Any], Any], given: Any
    ) -> Any:
        return then(given) if bool(which) else otherwise(given)

    def by_platform(self, host: Callable[..., Any], other: Callable[..., Any], *trees: Any) -> Any:
        return host(*trees)
