"""An editor that others wrote: the client of the package agent-client-protocol drives `agentctl acp`.

Its models reject what is not of the protocol, and its accumulator what does not belong together.
"""

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    import acp
    from acp import schema
    from acp.contrib.session_state import SessionAccumulator
except ImportError:  # The package needs Python 3.10.
    acp = None

# Longer than anything takes when all is well; nothing waits for ever.
PATIENCE = 60
ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / os.environ.get("PROFILE", "debug")
RED = base64.b64encode((ROOT / "tests/suite/e2e/fixtures/red.png").read_bytes()).decode()

COMMAND = "echo from the command"
SCRIPT = [
    {"text": "It is red."},
    {"tool_calls": [{"name": "edit_file", "arguments": {"path": "/project/a.txt", "old_string": "one", "new_string": "two"}}]},
    {"text": "It is edited."},
    {"tool_calls": [{"name": "run_bash_command", "arguments": {"command": COMMAND}}]},
    {"text": "It has run."},
    {"tool_calls": [{"name": "run_bash_command", "arguments": {"command": "touch outputs/never"}}]},
    {"text": "I am back."},
]
BUFFERS = [
    {"tool_calls": [{"name": "read_file", "arguments": {"path": "/project/a.txt"}}]},
    {"tool_calls": [{"name": "edit_file", "arguments": {"path": "/project/a.txt", "old_string": "typed", "new_string": "edited"}}]},
    {"text": "It is edited."},
]


class Editor:
    """The editor: it allows everything, unless questions are to be left open."""

    def __init__(self):
        self.accumulator = SessionAccumulator(auto_reset_on_session_change=False) if acp else None
        self.asked = []
        self.kinds = []
        self.is_open = None

    async def session_update(self, session_id, update, **kwargs):
        self.kinds.append(update.session_update)
        self.accumulator.apply(schema.SessionNotification(session_id=session_id, update=update))

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append((tool_call, options))
        if self.is_open is not None:
            self.is_open.set()
            await asyncio.Event().wait()
        option = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn):
        pass


class BufferEditor(Editor):
    """An editor with buffers, which it saves when it is given a text."""

    def __init__(self, buffers):
        super().__init__()
        self.buffers = buffers

    async def read_text_file(self, session_id, path, **kwargs):
        if path not in self.buffers:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.buffers[path] = content
        Path(path).write_text(content, encoding="utf-8")
        return schema.WriteTextFileResponse()


@unittest.skipIf(acp is None, "agent-client-protocol needs Python 3.10")
class World(unittest.IsolatedAsyncioTestCase):
    script = SCRIPT

    def setUp(self):
        # Not in TMPDIR: a socket's path must be short.
        self.home = Path(tempfile.mkdtemp(prefix="agentd-test-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.folder = self.home / "shop"
        self.folder.mkdir()
        (self.folder / "a.txt").write_text("one\n", encoding="utf-8")
        script = self.home / "script.json"
        script.write_text(json.dumps(self.script), encoding="utf-8")
        model = subprocess.Popen([PROGRAMS / "model-server", "script", script], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, model)
        self.addCleanup(model.stdout.close)
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "AGENTD_SOCKET": str(self.home / "run" / "agentd.sock"),
            "AGENTD_CONFIG_DIR": str(self.home / "config"),
            "AGENTD_DATA_DIR": str(self.home / "data"),
            "MODEL_BASIC_BASE_URL": model.stdout.readline().strip(),
        }
        # The daemon is started by the first session.
        self.addCleanup(self.agentctl, "stop")

    def end(self, process):
        process.kill()
        process.wait(PATIENCE)

    def agentctl(self, *words):
        return subprocess.run(
            [PROGRAMS / "agentctl", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def editor(self, client):
        return acp.spawn_agent_process(
            client, str(PROGRAMS / "agentctl"), "acp", env=self.environment, transport_kwargs={"limit": 1 << 24}
        )

    async def greeted(self, agent, capabilities=None):
        info = schema.Implementation(name="foreign", version="1")
        greeting = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_info=info, client_capabilities=capabilities
        )
        self.assertEqual(greeting.protocol_version, 1)
        return greeting

    def words(self, client):
        return "".join(chunk.content.text for chunk in client.accumulator.snapshot().agent_messages)


class ForeignEditor(World):
    async def test_a_session_from_its_beginning_over_a_restart_to_its_end(self):
        await asyncio.wait_for(self.a_session(), PATIENCE)

    async def a_session(self):
        client = Editor()
        async with self.editor(client) as (agent, _):
            greeting = await self.greeted(agent)
            self.assertTrue(greeting.agent_capabilities.load_session)
            self.assertTrue(greeting.auth_methods)
            session = (await agent.new_session(cwd=str(self.folder), mcp_servers=[])).session_id
            await self.pictures_and_resources(agent, session, client)
            await self.an_edit(agent, session, client)
            await self.a_command(agent, session, client)
            await self.a_cancel(agent, session, client)
            await self.a_restart(agent, session, client)
        await self.loaded(session)

    async def pictures_and_resources(self, agent, session, client):
        uri = (self.folder / "unsaved.txt").as_uri()
        resource = schema.TextResourceContents(uri=uri, text="not on the disk")
        prompt = [
            acp.text_block("Which colour is it?"),
            acp.image_block(RED, "image/png"),
            schema.EmbeddedResourceContentBlock(type="resource", resource=resource),
        ]
        answer = await agent.prompt(session_id=session, prompt=prompt)
        self.assertEqual((answer.stop_reason, self.words(client)), ("end_turn", "It is red."))

    async def an_edit(self, agent, session, client):
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("Edit it")])
        self.assertEqual(answer.stop_reason, "end_turn")
        self.assertEqual((self.folder / "a.txt").read_text(encoding="utf-8"), "two\n")
        asked, options = client.asked[-1]
        self.assertEqual(len({option.kind for option in options}), len(options), "each kind once")
        diff = next(content for content in asked.content if content.type == "diff")
        self.assertEqual((diff.old_text, diff.new_text), ("one\n", "two\n"))
        call = client.accumulator.snapshot().tool_calls[asked.tool_call_id]
        self.assertEqual((call.kind, call.status), ("edit", "completed"))
        self.assertEqual(call.locations[0].path, str(self.folder.resolve() / "a.txt"))

    async def a_command(self, agent, session, client):
        await agent.set_session_mode(session_id=session, mode_id="ask")
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("Run it")])
        self.assertEqual(answer.stop_reason, "end_turn")
        calls = [call for call in client.accumulator.snapshot().tool_calls.values() if call.kind == "execute"]
        self.assertEqual((calls[0].title, calls[0].status), (f"`$ {COMMAND}`", "completed"))
        self.assertIn("from the command", calls[0].content[0].content.text)

    async def a_cancel(self, agent, session, client):
        client.is_open = asyncio.Event()
        running = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[acp.text_block("Never do it")]))
        await client.is_open.wait()
        await agent.cancel(session_id=session)
        self.assertEqual((await running).stop_reason, "cancelled")
        client.is_open = None

    async def a_restart(self, agent, session, client):
        pid = json.loads(self.agentctl("status", "--json").stdout)["pid"]
        os.kill(pid, signal.SIGKILL)
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("Are you there?")])
        self.assertEqual(answer.stop_reason, "end_turn")
        self.assertTrue(self.words(client).endswith("I am back."), self.words(client))

    async def loaded(self, session):
        client = Editor()
        async with self.editor(client) as (agent, _):
            await self.greeted(agent)
            listed = await agent.list_sessions(cwd=str(self.folder))
            self.assertEqual([found.session_id for found in listed.sessions], [session])
            await agent.load_session(cwd=str(self.folder), session_id=session, mcp_servers=[])
            snapshot = client.accumulator.snapshot()
            said = [chunk.content.text for chunk in snapshot.user_messages]
            self.assertEqual(said[1:], ["Edit it", "Run it", "Never do it", "Are you there?"])
            self.assertTrue(said[0].startswith("Which colour is it?"), said)
            self.assertEqual({call.status for call in snapshot.tool_calls.values()}, {"completed", "failed"})
            with self.assertRaises(acp.RequestError) as refused:
                await agent.load_session(cwd=str(self.folder), session_id="nonsense", mcp_servers=[])
            self.assertEqual(refused.exception.code, -32002)


class UnsavedBuffers(World):
    script = BUFFERS

    async def test_an_edit_is_approved_against_the_buffer_and_lands_in_it(self):
        await asyncio.wait_for(self.an_edit(), PATIENCE)

    async def an_edit(self):
        path = str(self.folder / "a.txt")
        client = BufferEditor({path: "typed and not saved\n"})
        files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        async with self.editor(client) as (agent, _):
            await self.greeted(agent, schema.ClientCapabilities(fs=files))
            session = (await agent.new_session(cwd=str(self.folder), mcp_servers=[])).session_id
            answer = await agent.prompt(session_id=session, prompt=[acp.text_block("Edit it")])
        self.assertEqual((answer.stop_reason, self.words(client)), ("end_turn", "It is edited."))
        asked, _ = client.asked[-1]
        words = [content.content.text for content in asked.content if content.type == "content"]
        shown = next(text for text in words if "@@" in text)
        self.assertIn("-typed and not saved", shown)
        self.assertIn("+edited and not saved", shown)
        self.assertEqual(client.buffers, {path: "edited and not saved\n"})
        self.assertEqual((self.folder / "a.txt").read_text(encoding="utf-8"), "edited and not saved\n")


if __name__ == "__main__":
    unittest.main()
