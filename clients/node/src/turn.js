// A turn: its events over all connections, and what can be told to it.

import { AgentdError, Disconnected, TurnFailed, fromRpc } from "./errors.js";
import { Reader } from "./events.js";
import { RunningTools } from "./tools.js";
import { messages } from "./transport.js";

/**
 * A turn that runs in the daemon. Iterate over it for its events, once.
 *
 * The turn is not the connection: when that breaks, the iteration finds the daemon again and goes on where it was.
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
    /** The result, once the turn is over. */
    this.outcome = undefined;
    this.#client = client;
    this.#reader = new Reader((id, answer) => client.answer(id, answer), afterSeq);
  }

  /** Starts a turn. When this is done, the daemon has stored it. */
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
        problem.hint ??= "look at the session before you start again: the turn may have begun";
      }
      throw problem;
    }
    const turn = new Turn(client, String(headers.get("agentd-session-id")[0]), String(headers.get("agentd-turn-id")[0]));
    turn.#call = call;
    turn.#connection = connection;
    turn.#tools = new RunningTools(tools, (frame) => turn.#call === call && call.write(frame));
    return turn;
  }

  /** The number of the last stored event that was read: where `client.attach` goes on. */
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

  /** Reads to the end. An interrupt is left to other clients, so start with `onInterrupt: "deny"` if there are none. */
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

  /** Ends the turn as soon as possible. Its end is among its events. */
  async cancel() {
    await this.#client.call("Turns", "CancelTurn", { session: this.sessionId, turnId: this.id });
  }

  /** Leaves the turn, which goes on. Its tools of this client are gone then. */
  detach() {
    this.#detached = true;
    this.#tools.end();
    this.#call?.cancel();
  }

  async *#raw() {
    while (!this.#detached) {
      try {
        this.#call ??= await this.#subscribe();
        // Those of other turns come along after a reconnect.
        for await (const raw of messages(this.#call)) if (raw.turnId === this.id) yield raw;
        return;
      } catch (error) {
        if (this.#detached || this.#client.closed) return;
        if (!(error instanceof Disconnected)) throw error;
        this.#tools.end();
        this.#call = undefined;
        // What a person has stopped is not started again.
        await this.#client.reconnect(this.#connection, { start: error.kind !== "SHUTTING_DOWN" });
      }
    }
  }

  async #subscribe() {
    this.#connection = await this.#client.connection();
    return this.#connection.receive("Turns", "Subscribe", { session: this.sessionId, afterSeq: this.#reader.seq });
  }
}
