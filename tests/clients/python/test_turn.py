"""A client in another language, made from what the daemon says of itself.

Nothing generated is used: the services and messages are read from the reflection service, and the calls are made with
them over the daemon's Unix socket. The test runs a turn whose tool needs an approval, answers it on the turn's own
stream, and reads the turn's end.
"""

import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from concurrent import futures
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

# Longer than anything takes when all is well; nothing waits for ever.
PATIENCE = 60
ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / os.environ.get("PROFILE", "debug")

SCRIPT = [
    {"tool_calls": [{"name": "write_file", "arguments": {"path": "outputs/hello.txt", "content": "from Python\n"}}]},
    {"text": "It is written."},
]


def program(name):
    path = PROGRAMS / name
    if not path.is_file():
        raise FileNotFoundError(f'{path} is not built; run "make test-clients", which builds it first')
    return str(path)


class Api:
    """The services and messages of the daemon, read from its reflection service."""

    def __init__(self, channel):
        self.channel = channel
        self.pool = descriptor_pool.DescriptorPool()
        self.known = set()
        self.reflection = reflection_pb2_grpc.ServerReflectionStub(channel)

    def ask(self, **request):
        answers = self.reflection.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=PATIENCE
        )
        answer = next(answers)
        if answer.HasField("error_response"):
            raise LookupError(f"{request}: {answer.error_response.error_message}")
        return answer

    def services(self):
        listed = self.ask(list_services="").list_services_response.service
        return sorted(service.name for service in listed)

    def service(self, name):
        try:
            return self.pool.FindServiceByName(name)
        except KeyError:
            self.learn(self.ask(file_containing_symbol=name))
            return self.pool.FindServiceByName(name)

    def learn(self, answer):
        """Adds files to the pool, each after those that it imports."""
        for content in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(content)
            if file.name in self.known:
                continue
            self.known.add(file.name)
            for needed in file.dependency:
                if needed not in self.known:
                    self.learn(self.ask(file_by_filename=needed))
            self.pool.AddSerializedFile(content)

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def method(self, service, name):
        """A callable for one method, of the kind that its description says."""
        method = self.service(service).methods_by_name[name]
        path = f"/{service}/{name}"
        takes = message_factory.GetMessageClass(method.input_type)
        gives = message_factory.GetMessageClass(method.output_type)
        codec = {"request_serializer": takes.SerializeToString, "response_deserializer": gives.FromString}
        if method.client_streaming and method.server_streaming:
            return self.channel.stream_stream(path, **codec), takes
        if method.server_streaming:
            return self.channel.unary_stream(path, **codec), takes
        return self.channel.unary_unary(path, **codec), takes


class Processes(unittest.TestCase):
    """Processes that end with their test."""

    def start(self, command, **options):
        process = subprocess.Popen(command, **options)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)


class Turn(Processes):
    def setUp(self):
        # Not in TMPDIR: a socket's path must be short.
        self.home = Path(tempfile.mkdtemp(prefix="agentd-test-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        script = self.home / "script.json"
        script.write_text(json.dumps(SCRIPT), encoding="utf-8")
        model = self.start([program("model-server"), "script", str(script)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(model.stdout.close)
        base_url = model.stdout.readline().strip()
        self.assertTrue(base_url.startswith("http://"), "the model server prints its address")
        self.socket = self.home / "run" / "agentd.sock"
        log = open(self.home / "agentd.log", "wb")
        self.addCleanup(log.close)
        self.daemon = self.start(
            [program("agentd")],
            env={
                "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "HOME": str(self.home),
                "AGENTD_SOCKET": str(self.socket),
                "AGENTD_CONFIG_DIR": str(self.home / "config"),
                "AGENTD_DATA_DIR": str(self.home / "data"),
                "MODEL_BASIC_BASE_URL": base_url,
            },
            stdout=log,
            stderr=log,
        )
        self.wait_until_ready()
        # A name of the host is asked for by HTTP/2; a local socket has none.
        self.channel = grpc.insecure_channel(
            f"unix:{self.socket}", options=[("grpc.default_authority", "localhost")]
        )
        self.addCleanup(self.channel.close)
        self.api = Api(self.channel)

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.daemon.poll() is not None:
                self.fail(f"the daemon ended:\n{(self.home / 'agentd.log').read_text()}")
            with socket.socket(socket.AF_UNIX) as attempt:
                if attempt.connect_ex(str(self.socket)) == 0:
                    return
            time.sleep(0.01)
        self.fail("the daemon did not become ready")

    def test_reflection_names_every_service(self):
        services = self.api.services()
        for name in ["Audit", "Daemon", "Grants", "Interrupts", "Policy", "Sessions", "Turns"]:
            self.assertIn(f"agentd.v1.{name}", services)
        self.assertIn("grpc.health.v1.Health", services)
        check, request = self.api.method("grpc.health.v1.Health", "Check")
        self.assertEqual(check(request(), timeout=PATIENCE).status, 1, "serving")
        hello, request = self.api.method("agentd.v1.Daemon", "Hello")
        answer = hello(request(client="python", version="1", protocol_version=1), timeout=PATIENCE)
        self.assertEqual((answer.protocol_version, answer.pid), (1, self.daemon.pid))

    def test_a_turn_with_an_approval(self):
        turn, request = self.api.method("agentd.v1.Turns", "Turn")
        frames = queue.SimpleQueue()
        frames.put(request(start={"text": "Write it, please", "client": "python"}))
        events = turn(iter(frames.get, None), timeout=PATIENCE)
        self.addCleanup(events.cancel)
        # Otherwise a frame would be waited for after the end.
        self.addCleanup(frames.put, None)
        kinds, result, text = [], None, ""
        for event in events:
            kind = event.WhichOneof("kind")
            kinds.append(kind)
            if kind == "item_delta":
                text += event.item_delta.text
            elif kind == "interrupt_raised":
                interrupt = event.interrupt_raised.interrupt
                self.assertEqual(interrupt.approval.tool, "write_file")
                self.assertEqual(json.loads(interrupt.approval.args_json)["path"], "outputs/hello.txt")
                frames.put(request(answer={"interrupt_id": interrupt.id, "answer": {"approve": {}}}))
            elif kind == "turn_ended":
                result = event.turn_ended.result
        self.assertIsNotNone(result, kinds)
        self.assertEqual((result.text, text), ("It is written.", "It is written."))
        self.assertTrue(result.tool_used)
        self.assertEqual([file.path for file in result.files], ["outputs/hello.txt"])
        self.assertEqual((kinds[0], kinds[-1]), ("turn_started", "turn_ended"))
        self.assertLess(kinds.index("interrupt_raised"), kinds.index("interrupt_resolved"))
        headers = dict(events.initial_metadata())
        session = headers["agentd-session-id"]
        written = self.home / "data" / "workspace" / session / "outputs" / "hello.txt"
        self.assertEqual(written.read_text(encoding="utf-8"), "from Python\n")
        self.check_replay(session, kinds)

    def check_replay(self, session, kinds):
        """What was streamed is stored, in the same order, without the deltas."""
        subscribe, request = self.api.method("agentd.v1.Turns", "Subscribe")
        stream = subscribe(request(session=session, after_seq=0, until_idle=True), timeout=PATIENCE)
        stored = list(stream)
        self.assertEqual([event.seq for event in stored], list(range(1, len(stored) + 1)))
        self.assertEqual([event.WhichOneof("kind") for event in stored], [kind for kind in kinds if kind != "item_delta"])

    def test_a_refusal_has_a_message_and_a_hint(self):
        get, request = self.api.method("agentd.v1.Sessions", "Get")
        with self.assertRaises(grpc.RpcError) as refused:
            get(request(session="ffff"), timeout=PATIENCE)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)
        self.assertIn("ffff", refused.exception.details())
        trailers = dict(refused.exception.trailing_metadata())
        self.assertIn("grpc-status-details-bin", trailers)

    def test_sigterm_stops_the_daemon(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(PATIENCE), 0)
        self.assertFalse(self.socket.exists())


class OtherVersion(unittest.TestCase):
    """Our client with a fake daemon of another version."""

    def test_other_version_is_reported_and_ends_the_client(self):
        home = Path(tempfile.mkdtemp(prefix="agentd-test-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        path = home / "agentd.sock"
        # A HelloResponse by hand: protocol_version 99, version "9.9".
        hello = grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x63\x12\x039.9")
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("agentd.v1.Daemon", {"Hello": hello})])
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self.addCleanup(server.stop, None)
        for command in [["status"], ["run", "Hi"]]:
            said = subprocess.run(
                [program("agentctl"), *command],
                env={"HOME": str(home), "AGENTD_SOCKET": str(path), "PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            self.assertEqual(said.returncode, 3, said)
            self.assertIn("protocol 99", said.stderr)
            self.assertIn("hint:", said.stderr)


if __name__ == "__main__":
    unittest.main()
