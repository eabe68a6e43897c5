"""The client: finds the daemon, starts turns, reads sessions, and reconnects after a broken connection."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc

from . import daemon, v1
from .errors import AgentdError, Disconnected, NotFound, NotRunning, from_rpc
from .events import Event, Reader
from .tools import Tool
from .transport import Connection
from .turn import Turn, is_cancelling

VERSION = "0.2.0"
CHUNK = 512 * 1024
# Time limit of a reconnection, and the minimum and maximum pause between two attempts.
RECONNECT_SECONDS = 30.0
RETRY_SECONDS = (0.01, 0.5)


class Client:
    """A connection to the daemon of this user, for ``async with``.

    - ``name`` is the name in the audit log for answers of this client.
    - ``socket`` replaces the one determined by the environment.
    - ``start`` starts a daemon if none runs, with the program ``agentctl``.
    - ``environ`` replaces the environment of this process.
    """

    def __init__(
        self,
        name: str = "python",
        *,
        socket: str | None = None,
        start: bool = True,
        agentctl: str = "agentctl",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._environ = dict(os.environ if environ is None else environ)
        if socket is not None:
            self._environ["AGENTD_SOCKET"] = os.path.abspath(socket)
        self._start = start
        self._agentctl = agentctl
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        #: True after ``close``.
        self.closed = False

    async def __aenter__(self) -> Client:
        self.closed = False
        await self.connection()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection and ends all iterations. Turns continue in the daemon."""
        self.closed = True
        await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def connection(self, *, start: bool | None = None) -> Connection:
        """Returns the current connection, or a new one if the daemon no longer listens."""
        async with self._connecting:
            if self._connection is not None and daemon.listens(self._connection.socket):
                return self._connection
            if self.closed:
                raise AgentdError("the client is closed", "CONFLICT", "open it again with `async with`")
            await self._drop()
            self._connection = await self._find()
            if self._connection is None and (self._start if start is None else start):
                await daemon.start(self._agentctl, self._environ)
                self._connection = await self._find()
            if self._connection is None:
                raise NotRunning("no daemon is running", "NOT_RUNNING", "start it with `agentctl start`")
            return self._connection

    def has_dropped(self, connection: Connection | None) -> bool:
        """Returns true if the client has a different connection, or none."""
        return self._connection is not connection

    async def reconnect(self, lost: Connection | None, *, start: bool = True, timeout: float = RECONNECT_SECONDS) -> None:
        """Drops a broken connection, and finds the daemon again, which may be a new process, or starts it."""
        if self._connection is lost:
            # Otherwise another task has dropped it already.
            await self._drop()
        deadline, pause = time.monotonic() + timeout, RETRY_SECONDS[0]
        while True:
            try:
                await self.connection(start=start and self._start)
                return
            except (Disconnected, NotRunning):
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS[1])

    async def _find(self) -> Connection | None:
        named = daemon.named_socket(self._environ)
        for path in [named] if named else daemon.sockets(self._environ):
            if not daemon.listens(path):
                continue
            connection = Connection(path)
            try:
                hello = await connection.shake_hands(self.name, VERSION)
            except Disconnected:
                # The daemon is shutting down.
                await connection.close()
                continue
            except BaseException:
                await connection.close()
                raise
            data = daemon.data_dir(self._environ)
            if named or not hello.data_dir or daemon.same_folder(data, hello.data_dir):
                return connection
            await connection.close()
        return None

    async def call(self, service: str, method: str, request: Any, *, retry: bool = False) -> Any:
        """Calls any method with one response: ``client.call("Sessions", "Rename", v1.RenameSessionRequest(…))``.
        With ``retry``, it is called again after a broken connection, which is meant for methods without side effects.
        """
        connection = await self.connection()
        try:
            return await connection.call(service, method, request)
        except Disconnected as error:
            if not retry:
                raise
            await self.reconnect(connection, start=error.kind != "SHUTTING_DOWN")
            return await (await self.connection()).call(service, method, request)

    # Turns

    async def turn(
        self,
        text: str | None = None,
        *,
        session: str = "",
        project: str | os.PathLike[str] | None = None,
        writable: bool = False,
        mode: str | None = None,
        parts: Iterable[v1.InputPart] = (),
        tools: Iterable[Tool] = (),
        allowed_tools: Iterable[str] | None = None,
        answer_schema: Mapping[str, Any] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **fields: Any,
    ) -> Turn:
        """Starts a turn in a new or an existing session. Without ``text``, an interrupted turn is continued.

        For a new session, ``project`` is a folder that it can access, and ``mode`` is ``ask``, ``accept_edits``, ``plan``
        or ``auto``. ``fields`` are other fields of ``v1.TurnRequest.Start``; enum values may be written in short form, such
        as ``on_interrupt="deny"``. ``cwd`` is the folder in which commands start.
        """
        tools = list(tools)
        start = v1.TurnRequest.Start(session=session, text=text, parts=parts, client=self.name)
        start.tools.extend(tool.offer() for tool in tools)
        if project is not None:
            start.settings.project.CopyFrom(v1.Mount(path=os.path.abspath(project), writable=writable))
        if mode is not None:
            start.settings.mode = v1.SessionMode.Value(f"SESSION_MODE_{mode.upper()}")
        if allowed_tools is not None:
            start.allowed_tools.CopyFrom(v1.ToolNames(names=allowed_tools))
        if answer_schema is not None:
            start.answer_schema = json.dumps(answer_schema)
        for name in ("on_interrupt", "if_busy", "slot"):
            if isinstance(fields.get(name), str):
                fields[name] = f"{name}_{fields[name]}".upper()
        start.MergeFrom(v1.TurnRequest.Start(**fields))
        hello = (await self.connection()).hello
        # Values of the caller take precedence.
        lent = {name: self._environ[name] for name in hello.variables if name in self._environ}
        start.environment.update({**self._requested_variables(hello.environment, cwd), **start.environment})
        start.variables.update({**lent, **start.variables})
        return await Turn.start(self, start, tools)

    def _requested_variables(self, patterns: Iterable[str], cwd: str | os.PathLike[str] | None) -> dict[str, str]:
        """Returns the variables that the daemon requests, and the folder. The daemon ignores others."""
        patterns = list(patterns)
        found = {
            name: value
            for name, value in self._environ.items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        }
        if "PWD" in patterns:
            found["PWD"] = os.path.realpath(cwd or os.getcwd())
        return found

    async def ask(self, text: str, **options: Any) -> str:
        """Runs a turn to its end and returns the answer. Interrupts are denied unless ``on_interrupt`` is set."""
        return await (await self.turn(text, **{"on_interrupt": "deny", **options})).text()

    async def attach(self, session: str, turn_id: str | None = None, after_seq: int | None = None) -> Turn:
        """Joins the open turn of a session or the given turn, after the event with that number."""
        found = await self.session(session)
        if turn_id is None:
            if not found.HasField("open_turn"):
                raise NotFound(f"no turn of the session {session} is open", "NOT_FOUND")
            turn_id = found.open_turn.turn_id
            after_seq = found.open_turn.first_seq - 1 if after_seq is None else after_seq
        return Turn(self, found.summary.id, turn_id, after_seq or 0)

    async def follow(self, session: str, after_seq: int = 0) -> AsyncIterator[Event]:
        """Yields all stored and new events of a session after that number, without an end. If the daemon stops, it
        waits for a new one."""
        reader = Reader(self.answer, after_seq)
        request = v1.SubscribeRequest(session=session)

        def again() -> v1.SubscribeRequest:
            request.after_seq = reader.seq
            return request

        async for raw in self._stream("Turns", "Subscribe", again):
            for event in reader.read(raw):
                yield event

    async def watch(self, *, snapshot: bool = True, children: bool = False) -> AsyncIterator[v1.WatchEvent]:
        """Yields changes in all sessions, without an end. If the daemon stops, it waits for a new one and begins with a
        new snapshot."""
        request = v1.WatchRequest(snapshot=snapshot, children=children)
        async for event in self._stream("Daemon", "Watch", lambda: request):
            yield event

    async def _stream(self, service: str, method: str, request: Callable[[], Any]) -> AsyncIterator[Any]:
        while True:
            connection = await self.connection()
            call = connection.stream(service, method, request())
            try:
                async for event in call:
                    yield event
                return
            except asyncio.CancelledError:
                # The call was cancelled by `close` or another task that dropped the connection, or this task was.
                if is_cancelling() or not (self.closed or self.has_dropped(connection)):
                    raise
                if self.closed:
                    return
            except grpc.aio.AioRpcError as error:
                if self.closed:
                    return
                problem = from_rpc(error)
                if not isinstance(problem, Disconnected):
                    raise problem from None
            finally:
                call.cancel()
            # Watching must not start a daemon that the user has stopped.
            await self.reconnect(connection, start=False, timeout=math.inf)

    # Interrupts

    async def interrupts(self, session: str = "") -> list[v1.Interrupt]:
        """Returns the pending interrupts of a session or of all sessions, oldest first."""
        found: list[v1.Interrupt] = []
        request = v1.ListInterruptsRequest(session=session)
        while True:
            answer = await self.call("Interrupts", "List", request, retry=True)
            found.extend(answer.interrupts)
            if not answer.more or not answer.interrupts:
                return found
            request.after = found[-1].id

    async def answer(self, interrupt_id: str, answer: v1.Answer) -> None:
        """Answers an interrupt of any client's turn. A second answer fails with Conflict."""
        request = v1.AnswerRequest(interrupt_id=interrupt_id, answer=answer, client=self.name)
        await self.call("Interrupts", "Answer", request)

    # Sessions

    async def sessions(self, limit: int = 0, children: bool = False) -> list[v1.SessionSummary]:
        """Returns the most recently used sessions: 100, or ``limit``."""
        request = v1.ListSessionsRequest(limit=limit, children=children)
        return list((await self.call("Sessions", "List", request, retry=True)).sessions)

    async def session(self, session: str) -> v1.Session:
        """Returns a session by ID, unique prefix, title, or ``last``."""
        return await self.call("Sessions", "Get", v1.GetSessionRequest(session=session), retry=True)

    async def ask_aside(self, session: str, question: str) -> str:
        """Asks a session's model a side question, also during a turn. The history gets neither it nor the answer."""
        text: list[str] = []
        request = v1.AskRequest(session=session, question=question, client=self.name)
        try:
            async for part in (await self.connection()).stream("Sessions", "Ask", request):
                kind = part.WhichOneof("part")
                if kind == "done":
                    return "".join(text)
                text = text + [part.text] if kind == "text" else []
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        raise AgentdError("the answer was cut off", "CONFLICT")

    async def items(self, session: str, after_seq: int = 0, limit: int = 0) -> list[v1.NumberedItem]:
        """Returns the newest items of a session, oldest first."""
        request = v1.ListItemsRequest(session=session, after_seq=after_seq, limit=limit)
        return list((await self.call("Sessions", "Items", request, retry=True)).items)

    async def upload(self, session: str, content: bytes | os.PathLike[str], name: str = "") -> v1.UploadResponse:
        """Uploads a file to the session: bytes with a name, or the file at a path. The response has the path for tools."""
        data = content if isinstance(content, bytes) else await asyncio.to_thread(Path(content).read_bytes)
        name = name or ("" if isinstance(content, bytes) else Path(content).name)

        def chunks() -> Iterable[v1.UploadChunk]:
            yield v1.UploadChunk(header=v1.UploadHeader(session=session, name=name))
            for at in range(0, len(data), CHUNK):
                yield v1.UploadChunk(data=data[at : at + CHUNK])

        return await (await self.connection()).call("Sessions", "Upload", chunks())

    async def status(self) -> v1.StatusResponse:
        """Returns the state of the daemon."""
        return await self.call("Daemon", "Status", v1.StatusRequest(), retry=True)


__all__ = ["VERSION", "AgentdError", "Client"]
