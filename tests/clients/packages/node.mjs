// The Node package, installed from its archive, against a real daemon that it starts itself. Its argument names the test.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { promisify } from "node:util";
import { Client, Conflict, InvalidInput, NotFound, NotRunning, TurnFailed } from "agentd-client";

const home = process.env.HOME;
const words = JSON.parse(process.env.WORDS);
const textOf = (events) => events.filter((event) => event.type === "text").map((event) => event.text);

async function all(turn) {
  const events = [];
  for await (const event of turn) events.push(event);
  return events;
}

/** A socket in front of the daemon's, whose connections can be cut. */
async function proxied(path, target) {
  const sockets = new Set();
  const server = createServer((socket) => {
    const other = connect(target);
    for (const end of [socket, other]) {
      sockets.add(end);
      end.on("error", () => {});
      end.on("close", () => (socket.destroy(), other.destroy(), sockets.delete(end)));
    }
    socket.pipe(other).pipe(socket);
  });
  await new Promise((resolve) => server.listen(path, resolve));
  const cut = () => sockets.forEach((socket) => socket.destroy());
  return { cut, close: () => (server.close(), cut()) };
}

const tests = {
  async turn(client) {
    const turn = await client.turn("Write it", { project: `${home}/shop` });
    const events = [];
    for await (const event of turn) {
      events.push(event);
      if (event.type === "approval") {
        assert.deepEqual([event.tool, event.arguments.path], ["write_file", "outputs/a.txt"]);
        assert.match(event.preview, /a/);
        await event.approve();
        await assert.rejects(event.reject("too late"), (error) => error instanceof Conflict && error.kind === "CONFLICT");
      }
    }
    const text = textOf(events).join("");
    assert.equal(text, "It is written, é and all.");
    assert.deepEqual([turn.outcome.text, turn.outcome.toolUsed], [text, true]);
    const rest = events.map((event) => event.type);
    for (const type of ["toolCall", "approval", "resolved", "toolStarted", "toolResult", "thought", "text", "message", "ended"]) {
      const at = rest.indexOf(type);
      assert.ok(at >= 0, `${type} in ${rest}`);
      rest.splice(0, at + 1);
    }
    // What is kept of it.
    assert.deepEqual((await client.sessions()).map((session) => session.id), [turn.sessionId]);
    assert.equal((await client.session(turn.sessionId)).summary.status, "SESSION_STATUS_IDLE");
    assert.ok((await client.items(turn.sessionId)).length > 3);
    const uploaded = await client.upload(turn.sessionId, Buffer.from("words"), "note.txt");
    assert.equal(uploaded.path, "uploads/note.txt");
    assert.deepEqual(await client.interrupts(), []);
    // The turn again, from its journal: the same words, each once.
    assert.equal(textOf(await all(await client.attach(turn.sessionId, { turnId: turn.id }))).join(""), text);
    for await (const event of client.follow(turn.sessionId, { afterSeq: turn.seq - 1 })) {
      assert.equal(event.type, "ended");
      break;
    }
    await client.call("Sessions", "Rename", { session: turn.sessionId, title: "A letter" });
    assert.equal((await client.session("A letter")).summary.id, turn.sessionId);
    await assert.rejects(client.session("0123456789abcdef"), NotFound);
    const refused = client.turn("x", { session: turn.sessionId, title: "no" });
    await assert.rejects(refused, (error) => error instanceof InvalidInput && Boolean(error.hint));
    await assert.rejects(client.turn("x", { onInterrupt: "perhaps" }), InvalidInput);
  },

  async absent() {
    const refused = new Client({ start: false }).connect();
    await assert.rejects(refused, (error) => error instanceof NotRunning && error.hint.includes("agentctl start"));
  },

  async question(client) {
    const turn = await client.turn("Ask them");
    const steered = [];
    for await (const event of turn) {
      if (event.type === "question") {
        assert.deepEqual([event.question, event.choices], ["Tea?", ["yes", "no"]]);
        await turn.steer("And be quick");
        await event.answer("yes");
      } else if (event.type === "item" && event.item.userMessage?.steered) {
        steered.push(event.item.userMessage.text);
      }
    }
    assert.deepEqual([steered, turn.outcome.text], [["And be quick"], "They said yes."]);
    assert.equal(await client.askAside(turn.sessionId, "On the side?"), "By the way.");
    await assert.rejects(client.askAside(turn.sessionId, " "), InvalidInput);
  },

  /** The daemon is killed while an approval waits. */
  async waiting(client) {
    const turn = await client.turn("Write it");
    let asked = 0;
    for await (const event of turn) {
      if (event.type !== "approval") continue;
      asked += 1;
      const { pid } = await client.status();
      process.kill(pid, "SIGKILL");
      while ((await client.status()).pid === pid);
      await event.approve();
    }
    assert.deepEqual([asked, turn.outcome.text], [1, "It is written, é and all."]);
  },

  async cancel(client) {
    const turn = await client.turn("Talk on");
    for await (const event of turn) if (event.type === "text" && event.text.startsWith("word3 ")) await turn.cancel();
    assert.equal(turn.outcome.stopReason, "STOP_REASON_CANCELLED");
    const failed = (await client.attach(turn.sessionId, { turnId: turn.id })).text();
    await assert.rejects(failed, (error) => error instanceof TurnFailed && error.stopReason === "CANCELLED");
  },

  async kill(client) {
    const { pid } = await client.status();
    // Both find the daemon again, and neither breaks what the other has found.
    const watch = client.watch();
    assert.equal((await watch.next()).value.kind, "snapshot");
    const turn = await client.turn("Talk on");
    const seqs = [];
    let textCount = 0;
    for await (const event of turn) {
      if (event.type === "text" && ++textCount === 3) process.kill(pid, "SIGKILL");
      if (event.type !== "text") seqs.push(event.raw.seq);
    }
    assert.equal(turn.outcome.stopReason, "STOP_REASON_INTERRUPTED");
    assert.deepEqual(seqs, Array.from(seqs, (_, at) => seqs[0] + at), "each once");
    assert.notEqual((await client.status()).pid, pid);
    assert.equal(await client.ask(undefined, { session: turn.sessionId }), "And on.");
    for await (const event of watch) if (event.kind === "snapshot") break;
  },

  /** Who only watches starts no daemon that was stopped. */
  async stop() {
    const agentctl = (word) => promisify(execFile)("agentctl", [word]);
    await agentctl("start");
    writeFileSync(`${home}/agentctl`, `#!/bin/sh\ntouch ${home}/started\n`, { mode: 0o755 });
    const client = new Client({ agentctl: `${home}/agentctl` });
    const watch = client.watch();
    await watch.next();
    const again = watch.next();
    await agentctl("stop");
    await agentctl("start");
    assert.equal((await again).value.kind, "snapshot");
    assert.ok(!existsSync(`${home}/started`));
    const last = watch.next();
    client.close();
    assert.ok((await last).done);
  },

  async broken(direct) {
    const proxy = await proxied(`${home}/proxy.sock`, (await direct.connection()).socket);
    const client = new Client({ name: "test", socket: `${home}/proxy.sock` });
    const turn = await client.turn("Cut it");
    const pieces = [];
    for await (const event of turn) {
      if (event.type === "text" && [5, 20].includes(pieces.push(event.text))) proxy.cut();
    }
    assert.equal(pieces.join(""), words.join(""));
    client.close();
    proxy.close();
  },

  async detach(client) {
    const turn = await client.turn("Cut it");
    let textCount = 0;
    for await (const event of turn) if (event.type === "text" && ++textCount === 5) break;
    const again = await client.attach(turn.sessionId);
    assert.equal(again.id, turn.id);
    assert.equal(textOf(await all(again)).join(""), words.join(""));
  },

  async tool(client) {
    const asked = [];
    const buffer = {
      name: "buffer",
      description: "Reads a buffer of the editor.",
      parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
      async run({ path }) {
        asked.push(path);
        if (path === "none.rs") throw new Error("there is no such buffer");
        return "fn main() { hello() }";
      },
    };
    const data = Buffer.from([0, 255]);
    const parts = [
      { selection: { uri: "src/main.rs", text: "hello()", lines: { first: 1, last: 1 } } },
      { file: { name: "notes.bin", data } },
    ];
    assert.equal(await client.ask("Look into it", { tools: [buffer], parts }), "It says hello.");
    const read = await client.call("Sessions", "ReadFile", { session: "last", path: "uploads/notes.bin" });
    assert.deepEqual(read.content, data);
    const results = (await all(await client.turn("Fail on it", { tools: [buffer] }))).filter(({ type }) => type === "toolResult");
    assert.deepEqual(asked, ["src/main.rs", "none.rs"]);
    assert.equal(results.length, 1);
    assert.ok(results[0].error);
    assert.match(results[0].text, /no such buffer/);
  },

  async watch(client) {
    const kinds = [];
    const watched = (async () => {
      for await (const event of client.watch()) {
        kinds.push(event.kind);
        if (event.kind === "snapshot") client.ask("Write it").catch(() => {});
        if (event.kind === "turnEnded") return;
      }
    })();
    await watched;
    assert.equal(kinds[0], "snapshot");
    for (const kind of ["sessionCreated", "turnStarted", "turnEnded"]) assert.ok(kinds.includes(kind), `${kind} in ${kinds}`);
  },

  /** The example for VS Code, in an editor that is only as much of one as it needs. */
  async extension() {
    const shown = [];
    const commands = {};
    const uri = { fsPath: `${home}/shop/src/main.rs`, toString: () => `file://${home}/shop/src/main.rs` };
    const document = { uri, getText: () => "fn main() { hello() }", isDirty: true, isClosed: false };
    const position = { line: 0 };
    const prompts = ["Look into it", "Write it"];
    const vscode = {
      ProgressLocation: { Notification: 15 },
      commands: { registerCommand: (name, run) => (commands[name] = run) },
      workspace: { textDocuments: [document], getWorkspaceFolder: () => ({ uri: { fsPath: `${home}/shop` } }) },
      window: {
        activeTextEditor: {
          document,
          selection: { isEmpty: true, start: position, end: position },
          edit: async (change) => change({ replace: (_, text) => shown.push(`replaced: ${text}`) }),
        },
        createOutputChannel: () => ({ show() {}, append: (text) => shown.push(text), dispose() {} }),
        showInputBox: async () => prompts.shift(),
        showErrorMessage: async (message) => shown.push(`failed: ${message}`),
        showWarningMessage: async (message) => (shown.push(message), "Run"),
        withProgress: (_, run) => run({ report() {} }, { onCancellationRequested: () => ({ dispose() {} }) }),
      },
    };
    const load = Module._load;
    Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));
    const context = { subscriptions: [] };
    await createRequire(import.meta.url)("./extension.js").activate(context);
    await commands["agentd.ask"]();
    assert.match(shown.join(""), /> Look into it\n\nIt says hello\.\n$/);
    await commands["agentd.rewrite"]();
    assert.ok(shown.includes("Run write_file?"), shown);
    assert.equal(shown.at(-1), "replaced: It is written, é and all.");
    context.subscriptions.forEach((one) => one?.dispose?.());
  },
};

const client = new Client({ name: "test" });
await tests[process.argv[2]](client);
client.close();
