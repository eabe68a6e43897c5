"""Tools implemented by the client, such as one that reads unsaved buffers of an editor."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Union

from . import v1
from .events import arguments

Answer = Union[str, v1.InputPart, None]
Run = Callable[[dict[str, Any]], Union[Answer, Awaitable[Answer]]]


@dataclass(frozen=True)
class Tool:
    """A tool of this client. ``run`` takes the arguments and returns the result for the model: a text, or a picture of
    ``agentd.picture``. An exception is reported to the model. With ``changes``, a call needs an approval.
    """

    name: str
    description: str
    run: Run
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    changes: bool = False

    def offer(self) -> v1.ClientTool:
        """Describes the tool for the daemon."""
        effect = "CLIENT_TOOL_EFFECT_CHANGES" if self.changes else "CLIENT_TOOL_EFFECT_LOOKS"
        schema = json.dumps(self.parameters)
        return v1.ClientTool(name=self.name, description=self.description, parameters_json=schema, effect=effect)


class RunningTools:
    """Running calls of the client's tools in a turn."""

    def __init__(self, tools: list[Tool], send: Callable[[v1.TurnRequest], Awaitable[None]]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._send = send
        self._calls: dict[str, asyncio.Task[None]] = {}

    def watch(self, raw: v1.Event) -> None:
        """Starts requested calls, and aborts those whose result is already known."""
        kind = raw.WhichOneof("kind")
        if kind == "tool_requested":
            request = raw.tool_requested
            self._calls[request.call_id] = asyncio.ensure_future(self._answer(request))
        elif kind == "item_completed" and raw.item_completed.item.HasField("tool_result"):
            call = self._calls.pop(raw.item_completed.item.tool_result.call_id, None)
            if call is not None:
                call.cancel()

    def end(self) -> None:
        """Aborts all calls, because their stream has ended."""
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    async def _answer(self, request: v1.Event.ToolRequested) -> None:
        answer = v1.TurnRequest.ToolAnswer(call_id=request.call_id)
        try:
            found = self._tools[request.name].run(arguments(request.arguments))
            if inspect.isawaitable(found):
                found = await found
            if isinstance(found, v1.InputPart):
                answer.picture.CopyFrom(found.picture)
            answer.text = found if isinstance(found, str) else ""
        except Exception as error:  # Any error is reported to the model, and the turn continues.
            answer.error = str(error) or type(error).__name__
        await self._send(v1.TurnRequest(tool_answer=answer))
