// Tools that the client answers itself, such as the unsaved buffers of an editor.

import { parseArguments } from "./events.js";

/** A tool as the daemon is told of it. */
export function offer({ name, description, parameters = { type: "object", properties: {} }, changes = false }) {
  const effect = changes ? "CLIENT_TOOL_EFFECT_CHANGES" : "CLIENT_TOOL_EFFECT_LOOKS";
  return { name, description, parametersJson: JSON.stringify(parameters), effect };
}

/** The calls of a turn that its client works on. */
export class RunningTools {
  #tools;
  #send;
  #calls = new Map();

  constructor(tools, send) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#send = send;
  }

  /** Begins calls that are requested, and ends those that nobody waits for any more. */
  watch(raw) {
    if (raw.kind === "toolRequested") {
      const abort = new AbortController();
      this.#calls.set(raw.toolRequested.callId, abort);
      this.#answer(raw.toolRequested, abort.signal);
    } else if (raw.itemCompleted?.item.toolResult) {
      const { callId } = raw.itemCompleted.item.toolResult;
      this.#calls.get(callId)?.abort();
      this.#calls.delete(callId);
    }
  }

  /** Ends all calls: their stream is gone. */
  end() {
    for (const abort of this.#calls.values()) abort.abort();
    this.#calls.clear();
  }

  async #answer({ callId, name, arguments: args }, signal) {
    const answer = { callId };
    try {
      const found = await this.#tools.get(name).run(parseArguments(args), signal);
      if (found?.picture) answer.picture = found.picture;
      answer.text = typeof found === "string" ? found : (found?.text ?? "");
    } catch (error) {
      // Whatever it is, the model is told, and the turn goes on.
      answer.error = String(error?.message ?? error) || "it failed";
    }
    if (!signal.aborted) this.#send({ toolAnswer: answer });
  }
}
