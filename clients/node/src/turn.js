// A turn: its events across connections, and methods to steer and end it.

import { AgentdError, Disconnected, TurnFailed, fromRpc } from "./errors.js";
import { Reader } from "./events.js";
import { RunningTools } from "./tools.js";
import { messages } from "./transport.js";

/**
 * A turn that runs in the daemon. Iterate over it for its events, once.
 *
 * If the connection breaks, the iteration finds the daemon again and continues where it was.
 */
export class Turn {
  #client;
  #reader;
  #call;
  #connection;
  #tools = new RunningTools([], () => {});
  #detached = false;

  constructor(client, sessionId, turnId, afterSeq = 0) {
    this.sessionId = sessionId;
    this.id = turnId;
    /** Result of the turn, once it has ended. */
    this.outcome = undefined;
    this.#client = client;
    this.#reader = new Reader((id, answer) => client.answer(id, answer), afterSeq);
  }

  /** Starts a turn. When this resolves, the daemon has stored it. */
  static async start(client, start, tools) {
    const connection = await client.connection();
    const call = connection.exchange("Turns", "Turn");
    call.write({ start });
    let headers;
    try {
      headers = await new Promise((resolve, reject) => {
        call.once("metadata", (found) => found.get("agentd-turn-id").length && resolve(found));
        call.once("error", reject);
        call.once("end", () => call.failure && reject(call.failure));
        call.once("status", (status) => reject(status));
      });
    } catch (error) {
      const problem = fromRpc(error);
      if (problem instanceof Disconnected) {
        problem.hint ??= "check the session before you retry: the turn may have started";
      }
      throw problem;
    }
    const turn = new Turn(client, String(headers.get("agentd-session-id")[0]), String(headers.get("agentd-turn-id")[0]));
    turn.#call = call;
    turn.#connection = connection;
    turn.#tools = new RunningTools(tools, (frame) => turn.#call === call && call.write(frame));
    return turn;
  }

  /** Number of the last stored event that was read, from which `client.attach` can continue. */
  get seq() {
    return this.#reader.seq;
  }

  async *[Symbol.asyncIterator]() {
    try {
      for await (const raw of this.#raw()) {
        this.#tools.watch(raw);
        for (const event of this.#reader.read(raw)) {
          if (event.type === "ended") this.outcome = event.result;
          yield event;
        }
        if (this.outcome) return;
      }
    } finally {
      this.detach();
    }
  }

  /** Reads to the end. Interrupts are left to other clients, so start with `onInterrupt: "deny"` if there are none. */
  async result() {
    for await (const _ of this);
    if (!this.outcome) throw new AgentdError("the turn was detached before its end", "CANCELLED");
    return this.outcome;
  }

  /** Reads to the end and returns the answer; throws TurnFailed if there is none. */
  async text() {
    const result = await this.result();
    if (result.stopReason !== "STOP_REASON_COMPLETED") throw new TurnFailed(result);
    return result.text;
  }

  /** Adds input, which the model sees at its next step. */
  async steer(text) {
    await this.#client.call("Turns", "SteerTurn", { session: this.sessionId, turnId: this.id, text });
  }

  /** Cancels the turn. Its events report the end. */
  async cancel() {
    await this.#client.call("Turns", "CancelTurn", { session: this.sessionId, turnId: this.id });
  }

  /** Leaves the turn, which continues without this client's tools. */
  detach() {
    this.#detached = true;
    this.#tools.end();
    this.#call?.cancel();
  }

  async *#raw() {
    while (!this.#detached) {
      try {
        this.#call ??= await this.#subscribe();
        // After a reconnection, the stream also has events of other turns.
        for await (const raw of messages(this.#call)) if (raw.turnId === this.id) yield raw;
        return;
      } catch (error) {
        if (this.#detached || this.#client.closed) return;
        if (!(error instanceof Disconnected)) throw error;
        this.#tools.end();
        this.#call = undefined;
        // A daemon that the user has stopped is not restarted.
        await this.#client.reconnect(this.#connection, { start: error.kind !== "SHUTTING_DOWN" });
      }
    }
  }

  async #subscribe() {
    this.#connection = await this.#client.connection();
    return this.#connection.receive("Turns", "Subscribe", { session: this.sessionId, afterSeq: this.#reader.seq });
  }
}
