"""The Python package, installed from its wheel, against a real daemon that it starts itself."""

import asyncio
import os
import signal
import subprocess
import sys
import unittest

from world import PATIENCE, PROGRAMS, ROOT, WORDS, Proxy, World

agentd = None
if sys.version_info >= (3, 10):
    import agentd


@unittest.skipIf(agentd is None, "the package needs Python 3.10")
class PythonPackage(World):
    def client(self, **options):
        return agentd.Client("test", environ=self.environment, **options)

    async def within(self, work):
        await asyncio.wait_for(work, PATIENCE)

    async def test_a_turn_with_a_call_and_an_approval(self):
        await self.within(self.a_turn())

    async def a_turn(self):
        async with self.client() as client:
            turn = await client.turn("Write it", project=self.project)
            seen, text = [], ""
            async for event in turn:
                seen.append(type(event).__name__)
                if isinstance(event, agentd.Text):
                    text += event.text
                elif isinstance(event, agentd.Approval):
                    self.assertEqual((event.tool, event.arguments["path"]), ("write_file", "outputs/a.txt"))
                    self.assertIn("a", event.preview)
                    await event.approve()
                    with self.assertRaises(agentd.Conflict) as second:
                        await event.reject("too late")
                    self.assertEqual(second.exception.kind, "CONFLICT")
            self.assertEqual(text, "It is written, é and all.")
            self.assertEqual((turn.outcome.text, turn.outcome.tool_used), (text, True))
            calls = ["ToolCall", "Approval", "Resolved", "ToolStarted", "ToolResult", "Thought", "Text", "Message", "Ended"]
            rest = iter(seen)
            self.assertTrue(all(name in rest for name in calls), seen)
            await self.what_is_kept(client, turn)

    async def what_is_kept(self, client, turn):
        self.assertEqual([session.id for session in await client.sessions()], [turn.session_id])
        shown = await client.session(turn.session_id)
        self.assertEqual(shown.summary.status, agentd.v1.SESSION_STATUS_IDLE)
        self.assertGreater(len(await client.items(turn.session_id)), 3)
        uploaded = await client.upload(turn.session_id, b"words", "note.txt")
        self.assertEqual(uploaded.path, "uploads/note.txt")
        self.assertEqual(await client.interrupts(), [])
        # The turn again, from its journal: the same words, each once.
        again = await client.attach(turn.session_id, turn.id)
        texts = [event.text async for event in again if isinstance(event, agentd.Text)]
        self.assertEqual("".join(texts), turn.outcome.text)
        followed = client.follow(turn.session_id, turn.seq - 1)
        self.assertIsInstance(await anext(followed), agentd.Ended)
        await followed.aclose()
        with self.assertRaises(agentd.NotFound) as unknown:
            await client.session("0123456789abcdef")
        self.assertTrue(unknown.exception.message)
        with self.assertRaises(agentd.InvalidInput) as refused:
            await client.turn("x", session=turn.session_id, title="no")
        self.assertTrue(refused.exception.hint)

    async def test_no_daemon_and_none_may_be_started(self):
        with self.assertRaises(agentd.NotRunning) as refused:
            async with self.client(start=False):
                pass
        self.assertIn("agentctl start", refused.exception.hint)

    async def test_a_question_and_words_on_the_way(self):
        await self.within(self.a_question())

    async def a_question(self):
        async with self.client() as client:
            turn = await client.turn("Ask them")
            steered = []
            async for event in turn:
                if isinstance(event, agentd.Question):
                    self.assertEqual((event.question, event.choices), ("Tea?", ["yes", "no"]))
                    await turn.steer("And be quick")
                    await event.answer("yes")
                elif isinstance(event, agentd.ItemDone) and event.item.user_message.steered:
                    steered.append(event.item.user_message.text)
            self.assertEqual((steered, turn.outcome.text), (["And be quick"], "They said yes."))
            self.assertEqual(await client.ask_aside(turn.session_id, "On the side?"), "By the way.")
            with self.assertRaises(agentd.InvalidInput):
                await client.ask_aside(turn.session_id, " ")

    async def test_an_approval_outlives_the_daemon(self):
        await self.within(self.a_kill_while_it_waits())

    async def a_kill_while_it_waits(self):
        async with self.client() as client:
            turn = await client.turn("Write it")
            asked = 0
            async for event in turn:
                if isinstance(event, agentd.Approval):
                    asked += 1
                    pid = (await client.status()).pid
                    os.kill(pid, signal.SIGKILL)
                    while (await client.status()).pid == pid:
                        pass
                    await event.approve()
            self.assertEqual((asked, turn.outcome.text), (1, "It is written, é and all."))

    async def test_a_cancel(self):
        await self.within(self.a_cancel())

    async def a_cancel(self):
        async with self.client() as client:
            turn = await client.turn("Talk on")
            async for event in turn:
                if isinstance(event, agentd.Text) and event.text.startswith("word3 "):
                    await turn.cancel()
            self.assertEqual(turn.outcome.stop_reason, agentd.v1.STOP_REASON_CANCELLED)
            with self.assertRaises(agentd.TurnFailed) as failed:
                await (await client.attach(turn.session_id, turn.id)).text()
            self.assertEqual(failed.exception.stop_reason, "CANCELLED")

    async def test_a_kill_of_the_daemon_in_mid_stream(self):
        await self.within(self.a_kill())

    async def a_kill(self):
        async with self.client() as client:
            first = (await client.status()).pid
            # Both find the daemon again, and neither breaks what the other has found.
            watch = client.watch()
            self.assertEqual((await anext(watch)).WhichOneof("kind"), "snapshot")
            turn = await client.turn("Talk on")
            seqs, text_count = [], 0
            async for event in turn:
                text_count += isinstance(event, agentd.Text)
                if text_count == 3 and isinstance(event, agentd.Text):
                    os.kill(first, signal.SIGKILL)
                if not isinstance(event, agentd.Text):
                    seqs.append(event.seq)
            self.assertEqual(turn.outcome.stop_reason, agentd.v1.STOP_REASON_INTERRUPTED)
            self.assertEqual(seqs, list(range(seqs[0], seqs[-1] + 1)), "each once")
            self.assertNotEqual((await client.status()).pid, first)
            self.assertEqual(await client.ask(None, session=turn.session_id), "And on.")
            async for event in watch:
                if event.WhichOneof("kind") == "snapshot":
                    break

    async def test_who_only_watches_starts_no_daemon_that_was_stopped(self):
        await self.within(self.a_stop())

    async def a_stop(self):
        started = self.home / "started"
        program = self.home / "agentctl"
        program.write_text(f"#!/bin/sh\ntouch {started}\nexec {PROGRAMS}/agentctl \"$@\"\n", encoding="utf-8")
        program.chmod(0o755)
        await asyncio.to_thread(self.agentctl, "start")
        async with self.client(agentctl=str(program)) as client:
            watch = client.watch()
            await anext(watch)
            again = asyncio.ensure_future(anext(watch))
            await asyncio.to_thread(self.agentctl, "stop")
            await asyncio.to_thread(self.agentctl, "start")
            self.assertEqual((await again).WhichOneof("kind"), "snapshot")
            self.assertFalse(started.exists())
            last = asyncio.ensure_future(anext(watch, "the end"))
            await asyncio.sleep(0)
        self.assertEqual(await last, "the end")

    async def test_a_broken_connection_loses_and_repeats_nothing(self):
        await self.within(self.a_broken_connection())

    async def a_broken_connection(self):
        async with self.client() as direct:
            target = (await direct.connection()).socket
            async with Proxy(self.home / "proxy.sock", target) as proxy:
                async with self.client(socket=proxy.path) as client:
                    turn = await client.turn("Cut it")
                    pieces = []
                    async for event in turn:
                        if isinstance(event, agentd.Text):
                            pieces.append(event.text)
                            if len(pieces) in (5, 20):
                                proxy.cut()
                    self.assertEqual("".join(pieces), "".join(WORDS[:60]))
                    self.assertEqual(turn.outcome.text.strip(), "".join(WORDS[:60]).strip())

    async def test_detach_and_attach(self):
        await self.within(self.detached())

    async def detached(self):
        async with self.client() as client:
            turn = await client.turn("Cut it")
            pieces = []
            async for event in turn:
                if isinstance(event, agentd.Text):
                    pieces.append(event.text)
                    if len(pieces) == 5:
                        break
            again = await client.attach(turn.session_id)
            self.assertEqual(again.id, turn.id)
            whole = [event.text async for event in again if isinstance(event, agentd.Text)]
            self.assertEqual("".join(whole), "".join(WORDS[:60]))

    async def test_an_unsaved_buffer_is_a_tool(self):
        await self.within(self.a_client_tool())

    async def a_client_tool(self):
        asked = []

        async def buffer(arguments):
            asked.append(arguments["path"])
            if arguments["path"] == "none.rs":
                raise LookupError("there is no such buffer")
            return "fn main() { hello() }"

        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        tool = agentd.Tool("buffer", "Reads a buffer of the editor.", buffer, parameters)
        parts = [agentd.selection("src/main.rs", "hello()", 1), agentd.file("notes.bin", b"\x00\xff")]
        async with self.client() as client:
            self.assertEqual(await client.ask("Look into it", tools=[tool], parts=parts), "It says hello.")
            request = agentd.v1.ReadFileRequest(session="last", path="uploads/notes.bin")
            self.assertEqual((await client.call("Sessions", "ReadFile", request)).content, b"\x00\xff")
            turn = await client.turn("Fail on it", tools=[tool])
            results = [event async for event in turn if isinstance(event, agentd.ToolResult)]
            self.assertEqual(asked, ["src/main.rs", "none.rs"])
            self.assertEqual(len(results), 1)
            self.assertTrue(results[0].error)
            self.assertIn("no such buffer", results[0].text)

    async def test_notifier_reports_waiting_and_ended_sessions(self):
        await self.within(self.the_notifier())

    async def the_notifier(self):
        async with self.client() as client:
            command = [sys.executable, "-u", ROOT / "clients/python/examples/notifier.py"]
            # Without notify-send: it prints.
            environment = {**self.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "NOTIFY": "print"}
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.PIPE)
            try:
                self.assertIn(b"watching", await process.stdout.readline())
                turn = await client.turn("Write it", title="A letter")
                async for event in turn:
                    if isinstance(event, agentd.Approval):
                        self.assertIn(b"A letter waits: write_file", await process.stdout.readline())
                        await event.approve()
                self.assertIn(b"A letter ended: COMPLETED", await process.stdout.readline())
            finally:
                process.kill()
                await process.communicate()


if __name__ == "__main__":
    unittest.main()
