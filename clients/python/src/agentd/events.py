"""Events of a turn as small classes. ``raw`` is the whole event."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import v1


@dataclass(frozen=True)
class Event:
    """An event. Events without a class below are plain ones; see ``raw.WhichOneof("kind")``."""

    raw: v1.Event

    @property
    def seq(self) -> int:
        """The number of the event, or of the last stored one before it."""
        return self.raw.seq


@dataclass(frozen=True)
class TurnStarted(Event):
    """The turn has started."""

    model: str


@dataclass(frozen=True)
class Text(Event):
    """The next piece of the answer. All pieces together are the answer, also after a broken connection."""

    text: str


@dataclass(frozen=True)
class Thought(Event):
    """The next piece of the model's reasoning."""

    text: str


@dataclass(frozen=True)
class Message(Event):
    """A message of the model is complete. If it is cut and has no text, it was withdrawn."""

    text: str
    cut: bool


@dataclass(frozen=True)
class ToolCall(Event):
    """The model calls a tool."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ToolStarted(Event):
    """A tool starts to run."""

    call_id: str
    name: str


@dataclass(frozen=True)
class ToolProgress(Event):
    """A line about the progress of a tool, or a piece of a command's output."""

    text: str


@dataclass(frozen=True)
class ToolResult(Event):
    """A tool has finished. ``error`` is the name of the error's code; ``result`` has all fields."""

    call_id: str
    name: str
    text: str
    error: str | None
    result: v1.ToolResult


@dataclass(frozen=True)
class ItemDone(Event):
    """Any other item is complete: an input, reasoning, a notice, a compaction."""

    item: v1.Item


@dataclass(frozen=True)
class Interrupt(Event):
    """The turn waits for an answer of the user."""

    interrupt: v1.Interrupt
    _send: Callable[[str, v1.Answer], Awaitable[None]]

    async def reject(self, reason: str = "") -> None:
        """Rejects the call, or declines to answer."""
        await self._send(self.interrupt.id, v1.Answer(reject=v1.Answer.Reject(reason=reason or None)))


@dataclass(frozen=True)
class Approval(Interrupt):
    """A tool call that needs an approval. ``preview`` is for display."""

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.interrupt.approval.tool

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call."""
        return arguments(self.interrupt.approval.args_json)

    @property
    def preview(self) -> str:
        """A diff, or the command line; the arguments if there is neither."""
        approval = self.interrupt.approval
        return approval.preview if approval.HasField("preview") else approval.args_json

    async def approve(self) -> None:
        """Approves the call once."""
        await self._send(self.interrupt.id, v1.Answer(approve=v1.Answer.Approve()))

    async def always(self, for_good: bool = False, rule: str | None = None) -> None:
        """Approves the call, and stores the grants for this session or permanently."""
        scope = "GRANT_SCOPE_FOR_GOOD" if for_good else "GRANT_SCOPE_SESSION"
        await self._send(self.interrupt.id, v1.Answer(always=v1.Answer.Always(scope=scope, rule=rule)))

    async def edit(self, arguments: dict[str, Any]) -> None:
        """Approves the call with other arguments."""
        await self._send(self.interrupt.id, v1.Answer(edit=v1.Answer.Edit(args_json=json.dumps(arguments))))


@dataclass(frozen=True)
class Question(Interrupt):
    """A question of the model. ``reject`` declines to answer."""

    @property
    def question(self) -> str:
        """The text of the question."""
        return self.interrupt.question.question

    @property
    def choices(self) -> list[str]:
        """Suggested answers; any other text is accepted too."""
        return list(self.interrupt.question.choices)

    @property
    def secret(self) -> bool:
        """True if the answer is a password, which must not be shown or stored."""
        return self.interrupt.question.secret

    async def answer(self, text: str) -> None:
        """Answers the question; an empty text selects the default, if any."""
        await self._send(self.interrupt.id, v1.Answer(text=v1.Answer.Text(text=text)))


@dataclass(frozen=True)
class Resolved(Event):
    """An interrupt was answered, by this client or another one."""

    interrupt_id: str


@dataclass(frozen=True)
class TurnWarning(Event):
    """A warning, after which the turn continues."""

    code: str
    message: str


@dataclass(frozen=True)
class Ended(Event):
    """The turn has ended."""

    result: v1.TurnResult


def arguments(text: str) -> dict[str, Any]:
    """Parses the arguments of a call. Models write them, so they may be invalid JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


class Reader:
    """Converts raw events, each once: after a reconnection, content received before is not repeated."""

    def __init__(self, send: Callable[[str, v1.Answer], Awaitable[None]], after_seq: int = 0) -> None:
        self.seq = after_seq
        self._send = send
        # For each open item, its kind and the number of text bytes already reported.
        self._open: dict[str, tuple[str | None, int]] = {}

    def read(self, raw: v1.Event) -> Iterator[Event]:
        """Yields the events for a raw one: none, one, or the rest of a text and its end."""
        kind = raw.WhichOneof("kind")
        if kind == "item_delta":
            yield from self._delta(raw)
            return
        is_stored = kind not in ("tool_requested", "file_requested") and not (
            kind == "warning" and raw.warning.code == "command_refused"
        )
        if kind == "item_started":
            # After a reconnection, the daemon repeats the open items.
            self._open.setdefault(raw.item_started.item.id, (raw.item_started.item.WhichOneof("body"), 0))
        if is_stored:
            if raw.seq <= self.seq:
                return
            self.seq = raw.seq
        yield from self._event(kind, raw)

    def _delta(self, raw: v1.Event) -> Iterator[Event]:
        delta = raw.item_delta
        body, sent = self._open.get(delta.item_id, (None, 0))
        content = delta.text.encode()
        if body is None or delta.offset > sent or delta.offset + len(content) <= sent:
            # Either a gap, which the completed item fills, or nothing new.
            return
        text = content[sent - delta.offset :].decode(errors="replace")
        self._open[delta.item_id] = (body, delta.offset + len(content))
        yield from self._text(body, text, raw)

    @staticmethod
    def _text(body: str | None, text: str, raw: v1.Event) -> Iterator[Event]:
        if body == "agent_message":
            yield Text(raw, text)
        elif body == "reasoning":
            yield Thought(raw, text)
        elif body == "tool_result":
            yield ToolProgress(raw, text)

    def _event(self, kind: str | None, raw: v1.Event) -> Iterator[Event]:
        if kind == "turn_started":
            yield TurnStarted(raw, raw.turn_started.model)
        elif kind == "item_started" and raw.item_started.item.HasField("tool_result"):
            result = raw.item_started.item.tool_result
            yield ToolStarted(raw, result.call_id, result.name)
        elif kind == "item_completed":
            yield from self._completed(raw)
        elif kind == "interrupt_raised":
            interrupt = raw.interrupt_raised.interrupt
            known = {"approval": Approval, "question": Question}
            yield known.get(interrupt.WhichOneof("ask") or "", Interrupt)(raw, interrupt, self._send)
        elif kind == "interrupt_resolved":
            yield Resolved(raw, raw.interrupt_resolved.interrupt_id)
        elif kind == "warning":
            yield TurnWarning(raw, raw.warning.code, raw.warning.message)
        elif kind == "turn_ended":
            yield Ended(raw, raw.turn_ended.result)
        else:
            yield Event(raw)

    def _completed(self, raw: v1.Event) -> Iterator[Event]:
        item, status = raw.item_completed.item, raw.item_completed.status
        body = item.WhichOneof("body")
        _, sent = self._open.pop(item.id, (body, 0))
        if body in ("agent_message", "reasoning"):
            rest = getattr(item, body).text.encode()[sent:].decode(errors="replace")
            if rest:
                yield from self._text(body, rest, raw)
        if body == "agent_message":
            yield Message(raw, item.agent_message.text, status == v1.ItemStatus.ITEM_STATUS_CUT)
        elif body == "tool_call":
            call = item.tool_call
            yield ToolCall(raw, call.call_id, call.name, arguments(call.arguments))
        elif body == "tool_result":
            result = item.tool_result
            error = v1.ToolErrorCode.Name(result.error).removeprefix("TOOL_ERROR_CODE_") if result.error else None
            yield ToolResult(raw, result.call_id, result.name, result.text, error, result)
        else:
            yield ItemDone(raw, item)
