"""Turns through another program's idea of the wires.

LiteLLM's proxy takes requests in Anthropic's Messages and OpenAI's Responses, checks them by its own models of both, and asks a
server of chat completions, which plays a script. So what agentd writes is read
by somebody else, and what somebody else writes is read by agentd: words, calls of tools with their results, several turns, and
a restart of the daemon in between. The proxy also takes its configuration from the recipe of docs/models.md.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PROGRAMS = TARGET / os.environ.get("PROFILE", "debug")
PACKAGES = TARGET / "wire-packages"
KEY = "sk-proxy-" + "0123456789abcdef" * 2
PATIENCE = 120

# One turn with two steps of calls, then words; and the same again in the next turns.
TURN = [
    {"text": "I look.", "tool_calls": [{"name": "list_dir", "arguments": {"path": "/project"}}]},
    {
        "tool_calls": [
            {"name": "read_file", "arguments": {"path": "/project/a.txt"}},
            {"name": "read_file", "arguments": {"path": "/project/b.txt"}},
        ]
    },
    {"text": "Both are read."},
]

WIRES = {
    # name of the wire in models.yaml: the address below the proxy's root
    "anthropic": "",
    "responses": "/v1",
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(url, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    sys.exit(f"{what} does not answer at {url}")


def scripted(upstream):
    """The configuration of a proxy in front of a server of chat completions."""
    model = {"model": "custom_openai/scripted", "api_base": upstream, "api_key": "none"}
    return json.dumps(
        {
            "model_list": [{"model_name": "claude-scripted", "litellm_params": model}],
            "general_settings": {"master_key": KEY},
        }
    )


def proxy(folder, configuration):
    """Starts the proxy with this configuration; returns it and its address."""
    config = folder / "proxy.yaml"
    config.write_text(configuration)
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(PACKAGES),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_MASTER_KEY": KEY,
    }
    log = open(folder / "proxy.log", "w")
    command = [sys.executable, "-c", "from litellm import run_server; run_server()"]
    command += ["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    started = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    root = f"http://127.0.0.1:{port}"
    wait_for(f"{root}/health/liveliness", "the proxy")
    return started, root


def upstream(folder, turns):
    script = folder / "script.json"
    script.write_text(json.dumps(TURN * turns))
    command = [str(PROGRAMS / "model-server"), "--port", "0", "--lenient", "script", str(script)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return started, started.stdout.readline().strip()


def check(wire, below):
    folder = Path(tempfile.mkdtemp(prefix="agentd-wires-", dir="/tmp"))
    running = []
    agentctl = str(PROGRAMS / "agentctl")
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "NO_COLOR": "1",
    }

    def call(*args):
        done = subprocess.run([agentctl, *args], env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            print((folder / "proxy.log").read_text()[-4000:], file=sys.stderr)
            sys.exit(f"{wire}: agentctl {' '.join(args)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    try:
        model, address = upstream(folder, 3)
        running.append(model)
        litellm, root = proxy(folder, scripted(address))
        running.append(litellm)
        config = folder / "home" / ".config" / "agentd"
        config.mkdir(parents=True)
        (folder / "run").mkdir(mode=0o700)
        (folder / "project").mkdir()
        for name in ("a", "b"):
            (folder / "project" / f"{name}.txt").write_text(f"the words of {name}\n")
        slot = {"wire": wire, "base_url": root + below, "api_key": KEY, "id": "claude-scripted", "retries": 0}
        (config / "models.yaml").write_text(json.dumps({"base": slot}))
        run = ["run", "--output", "json", "-C", str(folder / "project")]
        first = json.loads(call(*run, "Look at both files."))
        session = ["--session", first["session_id"]]
        results = [first, json.loads(call("run", "--output", "json", "Again.", *session))]
        call("stop")
        results.append(json.loads(call("run", "--output", "json", "And once more.", *session)))
        for result in results:
            assert result["text"].endswith("Both are read."), result
            assert result["steps"] == 3 and result["tool_used"], result
            assert result["usage"]["prompt_tokens"] > 0, result
        print(f"ok  {wire}: {len(results)} turns, {sum(result['steps'] for result in results)} requests")
    finally:
        subprocess.run([agentctl, "stop"], env=environment, capture_output=True, timeout=PATIENCE)
        for process in running:
            process.terminate()
            process.wait(timeout=PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def recipe():
    """The proxy takes the recipe for Bedrock and Vertex, and offers its models, without asking their clouds."""
    page = (ROOT / "docs" / "models.md").read_text()
    text = page.split("**AWS Bedrock and Claude on Vertex**")[1].split("```yaml\n")[1].split("\n```")[0]
    folder = Path(tempfile.mkdtemp(prefix="agentd-wires-", dir="/tmp"))
    litellm, root = proxy(folder, text)
    try:
        request = urllib.request.Request(f"{root}/v1/models", headers={"x-api-key": KEY})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            names = sorted(model["id"] for model in json.load(answer)["data"])
        assert names == ["claude-bedrock", "claude-vertex"], names
        print("ok  recipe: Bedrock and Vertex")
    finally:
        litellm.terminate()
        litellm.wait(timeout=PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    recipe()
    for name, below in WIRES.items():
        check(name, below)
