// Events of a turn as plain objects with a `type`. `raw` is the whole event.

/** Parses the arguments of a call. Models write them, so they may be invalid JSON. */
export function parseArguments(text) {
  try {
    const found = JSON.parse(text);
    return found && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

/** Converts raw events, each once: after a reconnection, content received before is not repeated. */
export class Reader {
  // For each open item, its kind and the number of text bytes already reported.
  #open = new Map();
  #send;

  /** `send` answers an interrupt, given its ID and the answer. */
  constructor(send, afterSeq = 0) {
    this.seq = afterSeq;
    this.#send = send;
  }

  /** Returns the events for a raw one: none, one, or the rest of a text and its end. */
  read(raw) {
    if (raw.kind === "itemDelta") return this.#delta(raw);
    const isAsked = raw.kind === "toolRequested" || raw.kind === "fileRequested";
    const isStored = !isAsked && raw.warning?.code !== "command_refused";
    if (raw.kind === "itemStarted" && !this.#open.has(raw.itemStarted.item.id)) {
      // After a reconnection, the daemon repeats the open items.
      this.#open.set(raw.itemStarted.item.id, { body: raw.itemStarted.item.body, sentBytes: 0 });
    }
    if (isStored) {
      if (raw.seq <= this.seq) return [];
      this.seq = raw.seq;
    }
    return this.#event(raw);
  }

  #delta(raw) {
    const { itemId, offset, text } = raw.itemDelta;
    const item = this.#open.get(itemId);
    const content = Buffer.from(text);
    // Either a gap, which the completed item fills, or nothing new.
    if (!item || offset > item.sentBytes || offset + content.length <= item.sentBytes) return [];
    const rest = content.subarray(item.sentBytes - offset).toString();
    item.sentBytes = offset + content.length;
    return textEvents(item.body, rest, raw);
  }

  #event(raw) {
    switch (raw.kind) {
      case "turnStarted":
        return [{ type: "turnStarted", model: raw.turnStarted.model, raw }];
      case "itemStarted": {
        const result = raw.itemStarted.item.toolResult;
        if (result) return [{ type: "toolStarted", callId: result.callId, name: result.name, raw }];
        return [{ type: "other", raw }];
      }
      case "itemCompleted":
        return this.#completed(raw);
      case "interruptRaised":
        return [interruptEvent(raw, this.#send)];
      case "interruptResolved":
        return [{ type: "resolved", interruptId: raw.interruptResolved.interruptId, raw }];
      case "warning":
        return [{ type: "warning", code: raw.warning.code, message: raw.warning.message, raw }];
      case "turnEnded":
        return [{ type: "ended", result: raw.turnEnded.result, raw }];
      default:
        return [{ type: "other", raw }];
    }
  }

  #completed(raw) {
    const { item, status } = raw.itemCompleted;
    const sentBytes = this.#open.get(item.id)?.sentBytes ?? 0;
    this.#open.delete(item.id);
    const whole = item.agentMessage?.text ?? item.reasoning?.text ?? "";
    const rest = Buffer.from(whole).subarray(sentBytes).toString();
    const events = rest ? textEvents(item.body, rest, raw) : [];
    if (item.agentMessage) {
      events.push({ type: "message", text: item.agentMessage.text, cut: status === "ITEM_STATUS_CUT", raw });
    } else if (item.toolCall) {
      const { callId, name, arguments: args } = item.toolCall;
      events.push({ type: "toolCall", callId, name, arguments: parseArguments(args), raw });
    } else if (item.toolResult) {
      const { callId, name, text, error } = item.toolResult;
      const failed = error === "TOOL_ERROR_CODE_UNSPECIFIED" ? undefined : String(error).replace("TOOL_ERROR_CODE_", "");
      events.push({ type: "toolResult", callId, name, text, error: failed, result: item.toolResult, raw });
    } else {
      events.push({ type: "item", item, raw });
    }
    return events;
  }
}

function textEvents(body, text, raw) {
  const type = { agentMessage: "text", reasoning: "thought", toolResult: "toolProgress" }[body];
  return type ? [{ type, text, raw }] : [];
}

function interruptEvent(raw, send) {
  const { interrupt } = raw.interruptRaised;
  const answer = (value) => send(interrupt.id, value);
  const reject = (reason) => answer({ reject: reason ? { reason } : {} });
  if (interrupt.ask === "approval") {
    const { tool, argsJson, preview } = interrupt.approval;
    return {
      type: "approval",
      interrupt,
      tool,
      arguments: parseArguments(argsJson),
      preview: preview ?? argsJson,
      approve: () => answer({ approve: {} }),
      always: ({ forGood = false, rule } = {}) =>
        answer({ always: { scope: forGood ? "GRANT_SCOPE_FOR_GOOD" : "GRANT_SCOPE_SESSION", rule } }),
      edit: (args) => answer({ edit: { argsJson: JSON.stringify(args) } }),
      reject,
      raw,
    };
  }
  if (interrupt.ask === "question") {
    const { question, choices, secret = false } = interrupt.question;
    return { type: "question", interrupt, question, choices, secret, answer: (text) => answer({ text: { text } }), reject, raw };
  }
  return { type: "other", raw };
}
