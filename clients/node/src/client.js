// The client: finds the daemon, starts turns, reads sessions, and reconnects after a broken connection.

import { readFile, realpath } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import * as daemon from "./daemon.js";
import { AgentdError, Disconnected, InvalidInput, NotFound, NotRunning } from "./errors.js";
import { Reader } from "./events.js";
import { enumValue } from "./messages.js";
import { offer } from "./tools.js";
import { Connection, messages } from "./transport.js";
import { Turn } from "./turn.js";

export const VERSION = "0.2.0";
const CHUNK = 512 * 1024;
// Time limit of a reconnection, and the minimum and maximum pause between two attempts.
const RECONNECT_MS = 30_000;
const RETRY_MS = [10, 500];

/** A connection to the daemon of this user. */
export class Client {
  #env;
  #start;
  #agentctl;
  #connection;
  #connecting;
  #closed = false;

  constructor({ name = "node", socket, start = true, agentctl = "agentctl", env = process.env } = {}) {
    this.name = name;
    this.#env = socket ? { ...env, AGENTD_SOCKET: resolve(socket) } : { ...env };
    this.#start = start;
    this.#agentctl = agentctl;
  }

  /** Connects. The first call also does this. */
  async connect() {
    this.#closed = false;
    await this.connection();
    return this;
  }

  /** Closes the connection and ends all iterations. Turns continue in the daemon. */
  close() {
    this.#closed = true;
    this.#drop();
  }

  /** True after `close`. */
  get closed() {
    return this.#closed;
  }

  #drop() {
    this.#connection?.close();
    this.#connection = undefined;
  }

  async [Symbol.asyncDispose]() {
    this.close();
  }

  /** Returns the current connection, or a new one if the daemon no longer listens. */
  async connection({ start = this.#start } = {}) {
    // Concurrent callers share one attempt.
    this.#connecting ??= this.#connect(start).finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  async #connect(start) {
    if (this.#connection && (await daemon.listens(this.#connection.socket))) return this.#connection;
    if (this.#closed) throw new AgentdError("the client is closed", "CONFLICT", "call connect() to open it again");
    this.#drop();
    this.#connection = await this.#find();
    if (!this.#connection && start) {
      await daemon.start(this.#agentctl, this.#env);
      this.#connection = await this.#find();
    }
    if (!this.#connection) throw new NotRunning("no daemon is running", "NOT_RUNNING", "start it with `agentctl start`");
    return this.#connection;
  }

  /** Drops a broken connection, and finds the daemon again, which may be a new process, or starts it. */
  async reconnect(lost, { start = true, timeoutMs = RECONNECT_MS } = {}) {
    // Otherwise another caller has dropped it already.
    if (this.#connection === lost) this.#drop();
    const deadline = performance.now() + timeoutMs;
    for (let wait = RETRY_MS[0]; ; wait = Math.min(wait * 2, RETRY_MS[1])) {
      try {
        await this.connection({ start: start && this.#start });
        return;
      } catch (error) {
        const canRetry = error instanceof Disconnected || error instanceof NotRunning;
        if (!canRetry || performance.now() > deadline) throw error;
      }
      await pause(wait);
    }
  }

  async #find() {
    const named = daemon.namedSocket(this.#env);
    for (const path of named ? [named] : daemon.sockets(this.#env)) {
      if (!(await daemon.listens(path))) continue;
      const connection = new Connection(path);
      try {
        const { dataDir } = await connection.shakeHands(this.name, VERSION);
        if (named || !dataDir || daemon.sameFolder(daemon.dataDir(this.#env), dataDir)) return connection;
      } catch (error) {
        // A daemon that is shutting down is skipped.
        if (!(error instanceof Disconnected)) {
          connection.close();
          throw error;
        }
      }
      connection.close();
    }
    return undefined;
  }

  /**
   * Calls any unary method, for example `client.call("Sessions", "Rename", { session, title })`. With
   * `retry`, it is called again after a broken connection, which is meant for methods without side effects.
   */
  async call(service, method, request, { retry = false } = {}) {
    const connection = await this.connection();
    try {
      return await connection.call(service, method, request);
    } catch (error) {
      if (!retry || !(error instanceof Disconnected)) throw error;
      await this.reconnect(connection, { start: error.kind !== "SHUTTING_DOWN" });
      return (await this.connection()).call(service, method, request);
    }
  }

  // Turns

  /**
   * Starts a turn in a new or an existing session. Without `text`, an interrupted turn is continued.
   *
   * Options besides the fields of `TurnRequest.Start`: `project`, `writable` and `mode` of a new session, and `cwd`, the folder
   * in which commands start. Enum values may be written in short form, such as `onInterrupt: "deny"`.
   */
  async turn(text, options = {}) {
    const { project, writable = false, mode, tools = [], allowedTools, answerSchema, cwd, ...fields } = options;
    const start = { ...fields, text, client: this.name, tools: tools.map(offer) };
    if (project !== undefined || mode !== undefined) start.settings = { ...start.settings };
    if (project !== undefined) start.settings.project = { path: resolve(project), writable };
    if (mode !== undefined) start.settings.mode = named("SessionMode", "session_mode", mode);
    if (allowedTools) start.allowedTools = { names: allowedTools };
    if (answerSchema) start.answerSchema = JSON.stringify(answerSchema);
    if (start.onInterrupt) start.onInterrupt = named("OnInterrupt", "on_interrupt", start.onInterrupt);
    if (start.ifBusy) start.ifBusy = named("IfBusy", "if_busy", start.ifBusy);
    if (start.slot) start.slot = named("Slot", "slot", start.slot);
    const { hello } = await this.connection();
    start.environment = { ...(await this.#requestedVariables(hello.environment, cwd)), ...start.environment };
    const lent = hello.variables.filter((name) => this.#env[name] !== undefined);
    start.variables = { ...Object.fromEntries(lent.map((name) => [name, this.#env[name]])), ...start.variables };
    return Turn.start(this, start, tools);
  }

  /** Returns the variables that the daemon requests, and the folder. The daemon ignores others. */
  async #requestedVariables(patterns, cwd) {
    const fits = (name) =>
      patterns.some((pattern) => (pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
    const found = Object.fromEntries(Object.entries(this.#env).filter(([name]) => fits(name)));
    if (patterns.includes("PWD")) found.PWD = await realpath(cwd ?? process.cwd());
    return found;
  }

  /** Runs a turn to its end and returns the answer. Interrupts are denied unless `onInterrupt` is set. */
  async ask(text, options = {}) {
    return (await this.turn(text, { onInterrupt: "deny", ...options })).text();
  }

  /** Joins the open turn of a session or the given turn, after the event with that number. */
  async attach(session, { turnId, afterSeq } = {}) {
    const { summary, openTurn } = await this.session(session);
    if (turnId === undefined && !openTurn) throw new NotFound(`no turn of the session ${session} is open`, "NOT_FOUND");
    const first = turnId === undefined ? openTurn.firstSeq - 1 : 0;
    return new Turn(this, summary.id, turnId ?? openTurn.turnId, afterSeq ?? first);
  }

  /**
   * Yields all stored and new events of a session after that number, without an end. If the daemon stops, it waits for a new
   * one.
   */
  async *follow(session, { afterSeq = 0 } = {}) {
    const reader = new Reader((id, answer) => this.answer(id, answer), afterSeq);
    for await (const raw of this.#stream("Turns", "Subscribe", () => ({ session, afterSeq: reader.seq }))) {
      yield* reader.read(raw);
    }
  }

  /**
   * Yields changes in all sessions, without an end. If the daemon stops, it waits for a new one and begins with a new
   * snapshot.
   */
  async *watch({ snapshot = true, children = false } = {}) {
    yield* this.#stream("Daemon", "Watch", () => ({ snapshot, children }));
  }

  async *#stream(service, method, request) {
    for (;;) {
      const connection = await this.connection();
      const call = connection.receive(service, method, request());
      try {
        yield* messages(call);
        return;
      } catch (error) {
        if (this.#closed) return;
        if (!(error instanceof Disconnected)) throw error;
      } finally {
        call.cancel();
      }
      // Watching must not start a daemon that the user has stopped.
      await this.reconnect(connection, { start: false, timeoutMs: Infinity });
    }
  }

  // Interrupts

  /** Returns the pending interrupts of a session or of all sessions, oldest first. */
  async interrupts(session = "") {
    const found = [];
    for (;;) {
      const after = found.at(-1)?.id ?? "";
      const answer = await this.call("Interrupts", "List", { session, after }, { retry: true });
      found.push(...answer.interrupts);
      if (!answer.more || answer.interrupts.length === 0) return found;
    }
  }

  /** Answers an interrupt of any client's turn. A second answer fails with Conflict. */
  async answer(interruptId, answer) {
    await this.call("Interrupts", "Answer", { interruptId, answer, client: this.name });
  }

  // Sessions

  /** Returns the most recently used sessions: 100, or `limit`. */
  async sessions({ limit = 0, children = false } = {}) {
    return (await this.call("Sessions", "List", { limit, children }, { retry: true })).sessions;
  }

  /** Returns a session by ID, unique prefix, title, or `last`. */
  async session(session) {
    return this.call("Sessions", "Get", { session }, { retry: true });
  }

  /** Asks a session's model a side question, also during a turn. The history gets neither it nor the answer. */
  async askAside(session, question) {
    const call = (await this.connection()).receive("Sessions", "Ask", { session, question, client: this.name });
    let text = "";
    for await (const part of messages(call)) {
      if (part.done) return text;
      text = part.text ? text + part.text : "";
    }
    throw new AgentdError("the answer was cut off", "CONFLICT");
  }

  /** Returns the newest items of a session, oldest first. */
  async items(session, { afterSeq = 0, limit = 0 } = {}) {
    return (await this.call("Sessions", "Items", { session, afterSeq, limit }, { retry: true })).items;
  }

  /** Uploads a file to the session: bytes with a name, or the file at a path. The response has the path for tools. */
  async upload(session, content, name) {
    const isPath = typeof content === "string";
    const data = isPath ? await readFile(content) : content;
    const chunks = [{ header: { session, name: name ?? (isPath ? basename(content) : "") } }];
    for (let at = 0; at < data.length; at += CHUNK) chunks.push({ data: data.subarray(at, at + CHUNK) });
    return (await this.connection()).send("Sessions", "Upload", chunks);
  }

  /** Returns the state of the daemon. */
  async status() {
    return this.call("Daemon", "Status", {}, { retry: true });
  }
}

function named(type, prefix, short) {
  const value = enumValue(type, prefix, short);
  if (!value) throw new InvalidInput(`invalid ${type}: ${short}`, "INVALID_INPUT");
  return value;
}
