"""A turn: its events across connections, and methods to steer and end it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import grpc

from . import v1
from .errors import AgentdError, Disconnected, TurnFailed, from_rpc
from .events import Ended, Event, Reader
from .tools import RunningTools, Tool

if TYPE_CHECKING:
    from .client import Client
    from .transport import Connection

DONE = grpc.aio.EOF


class Turn:
    """A turn that runs in the daemon. Iterate over it for its events, once.

    If the connection breaks, the iteration finds the daemon again and continues where it was.
    """

    def __init__(self, client: Client, session_id: str, turn_id: str, after_seq: int = 0) -> None:
        self.session_id = session_id
        self.id = turn_id
        #: Result of the turn, once it has ended.
        self.outcome: v1.TurnResult | None = None
        self._client = client
        self._reader = Reader(client.answer, after_seq)
        self._call: Any = None
        self._connection: Connection | None = None
        self._tools = RunningTools([], self._send)
        self._writing = asyncio.Lock()
        self._detached = False

    @classmethod
    async def start(cls, client: Client, start: v1.TurnRequest.Start, tools: list[Tool]) -> Turn:
        """Starts a turn. When this returns, the daemon has stored it."""
        connection = await client.connection()
        call = connection.stream("Turns", "Turn")
        try:
            await call.write(v1.TurnRequest(start=start))
            headers = {key: value for key, value in await call.initial_metadata() or ()}
            if "agentd-turn-id" not in headers:
                await call.read()
                raise AgentdError("the daemon did not start a turn", "PROTOCOL")
        except grpc.aio.AioRpcError as error:
            raise _unstarted(from_rpc(error)) from None
        except asyncio.InvalidStateError:
            # The call ended before the start was written.
            raise _unstarted(await _status(call)) from None
        turn = cls(client, headers["agentd-session-id"], headers["agentd-turn-id"])
        turn._call, turn._connection = call, connection
        turn._tools = RunningTools(tools, turn._send)
        return turn

    @property
    def seq(self) -> int:
        """Number of the last stored event that was read, from which ``Client.attach`` can continue."""
        return self._reader.seq

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            async for raw in self._raw():
                self._tools.watch(raw)
                for event in self._reader.read(raw):
                    if isinstance(event, Ended):
                        self.outcome = event.result
                    yield event
                if self.outcome is not None:
                    return
        finally:
            await self.detach()

    async def result(self) -> v1.TurnResult:
        """Reads to the end. Interrupts are left to other clients, so start with ``on_interrupt="deny"`` if there are none."""
        async for _ in self:
            pass
        if self.outcome is None:
            raise AgentdError("the turn was detached before its end", "CANCELLED")
        return self.outcome

    async def text(self) -> str:
        """Reads to the end and returns the answer; raises TurnFailed if there is none."""
        result = await self.result()
        if result.stop_reason != v1.StopReason.STOP_REASON_COMPLETED:
            raise TurnFailed(result)
        return result.text

    async def steer(self, text: str) -> None:
        """Adds input, which the model sees at its next step."""
        request = v1.SteerTurnRequest(session=self.session_id, turn_id=self.id, text=text)
        await self._client.call("Turns", "SteerTurn", request)

    async def cancel(self) -> None:
        """Cancels the turn. Its events report the end."""
        request = v1.CancelTurnRequest(session=self.session_id, turn_id=self.id)
        await self._client.call("Turns", "CancelTurn", request)

    async def detach(self) -> None:
        """Leaves the turn, which continues without this client's tools."""
        self._detached = True
        self._tools.end()
        if self._call is not None:
            self._call.cancel()

    async def _raw(self) -> AsyncIterator[v1.Event]:
        while not self._detached:
            try:
                if self._call is None:
                    await self._subscribe()
                while (raw := await self._call.read()) is not DONE:
                    # After a reconnection, the stream also has events of other turns.
                    if raw.turn_id == self.id:
                        yield raw
                return
            except asyncio.CancelledError:
                # The call was cancelled by `detach`, `close` or another task that dropped the connection, or this task was.
                if is_cancelling() or not (self._is_over() or self._client.has_dropped(self._connection)):
                    raise
                if self._is_over():
                    return
                await self._resume(Disconnected("another task of the client dropped the connection", "DISCONNECTED"))
            except grpc.aio.AioRpcError as error:
                if self._is_over():
                    return
                problem = from_rpc(error)
                if not isinstance(problem, Disconnected):
                    raise problem from None
                await self._resume(problem)

    def _is_over(self) -> bool:
        return self._detached or self._client.closed

    async def _resume(self, problem: Disconnected) -> None:
        self._tools.end()
        self._call = None
        # A daemon that the user has stopped is not restarted.
        await self._client.reconnect(self._connection, start=problem.kind != "SHUTTING_DOWN")

    async def _subscribe(self) -> None:
        self._connection = await self._client.connection()
        request = v1.SubscribeRequest(session=self.session_id, after_seq=self._reader.seq)
        self._call = self._connection.stream("Turns", "Subscribe", request)

    async def _send(self, frame: v1.TurnRequest) -> None:
        async with self._writing:
            try:
                await self._call.write(frame)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, AttributeError):
                # The stream has ended, which its reader reports.
                return


async def _status(call: Any) -> AgentdError:
    code, details, trailers = await call.code(), await call.details(), await call.trailing_metadata()
    return from_rpc(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details))


def _unstarted(error: AgentdError) -> AgentdError:
    if isinstance(error, Disconnected) and error.hint is None:
        error.hint = "check the session before you retry: the turn may have started"
    return error


def is_cancelling() -> bool:
    """Returns true if this task is being cancelled, rather than only what it awaits."""
    task = asyncio.current_task()
    # Python 3.10 has no `cancelling`.
    return bool(task is not None and hasattr(task, "cancelling") and task.cancelling())
