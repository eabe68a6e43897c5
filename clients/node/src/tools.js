// Tools implemented by the client, such as one that reads unsaved buffers of an editor.

import { parseArguments } from "./events.js";

/** Describes a tool for the daemon. */
export function offer({ name, description, parameters = { type: "object", properties: {} }, changes = false }) {
  const effect = changes ? "CLIENT_TOOL_EFFECT_CHANGES" : "CLIENT_TOOL_EFFECT_LOOKS";
  return { name, description, parametersJson: JSON.stringify(parameters), effect };
}

/** Running calls of the client's tools in a turn. */
export class RunningTools {
  #tools;
  #send;
  #calls = new Map();

  constructor(tools, send) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#send = send;
  }

  /** Starts requested calls, and aborts those whose result is already known. */
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

  /** Aborts all calls, because their stream has ended. */
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
      // Any error is reported to the model, and the turn continues.
      answer.error = String(error?.message ?? error) || "the tool failed";
    }
    if (!signal.aborted) this.#send({ toolAnswer: answer });
  }
}
