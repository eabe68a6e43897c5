// Errors, classified by the kind that the daemon reports.

import { status } from "@grpc/grpc-js";
import { decode } from "./messages.js";

/** A failed call. Decide by `kind`, never by the text; `hint` suggests a fix. */
export class AgentdError extends Error {
  constructor(message, kind = "INTERNAL", hint = undefined) {
    super(message);
    this.name = new.target.name;
    this.kind = kind;
    this.hint = hint;
  }
}

/** No daemon is running, and none could be started. */
export class NotRunning extends AgentdError {}
/** The daemon uses a different protocol version. */
export class OtherVersion extends AgentdError {}
/** The connection broke, or the daemon is stopping. It is not known whether the call took effect. */
export class Disconnected extends AgentdError {}
/** The named thing does not exist. */
export class NotFound extends AgentdError {}
/** The request is malformed. */
export class InvalidInput extends AgentdError {}
/** No longer valid: already answered, or its subject has changed. */
export class Conflict extends AgentdError {}
/** A turn of the session is open, or the queue is full; retry later. */
export class Busy extends AgentdError {}

/** A turn that ended without an answer. `result` has the details. */
export class TurnFailed extends AgentdError {
  constructor(result) {
    // A reason added by a newer daemon is a number.
    const reason = String(result.stopReason).replace("STOP_REASON_", "");
    const { error } = result;
    super(error?.message || `the turn ended with ${reason}`, error ? kindName(error.kind) : reason, error?.hint);
    this.result = result;
    this.stopReason = reason;
  }
}

const CLASSES = {
  NOT_FOUND: NotFound,
  INVALID_INPUT: InvalidInput,
  CONFLICT: Conflict,
  BUSY: Busy,
  SHUTTING_DOWN: Disconnected,
};

// Kinds for statuses without details, which the transport creates.
const BARE = {
  [status.INVALID_ARGUMENT]: "INVALID_INPUT",
  [status.NOT_FOUND]: "NOT_FOUND",
  [status.FAILED_PRECONDITION]: "CONFLICT",
  [status.RESOURCE_EXHAUSTED]: "STORAGE",
  [status.DEADLINE_EXCEEDED]: "TIMEOUT",
  [status.UNIMPLEMENTED]: "PROTOCOL",
  [status.OUT_OF_RANGE]: "PROTOCOL",
};

// Statuses of the transport for a lost connection.
const BROKEN = [status.UNAVAILABLE, status.INTERNAL, status.UNKNOWN, status.CANCELLED];

/** Returns the name of a kind, or its number if only newer daemons define it. */
function kindName(kind) {
  return typeof kind === "string" ? kind.replace("ERROR_KIND_", "") : `KIND_${kind}`;
}

/** Converts the error of a call, with the kind and hint of the daemon if present. */
export function fromRpc(error) {
  if (error instanceof AgentdError || typeof error?.code !== "number") return error;
  const message = error.details || error.message;
  const [packed] = error.metadata?.get("grpc-status-details-bin") ?? [];
  if (packed) {
    const found = decode("ErrorStatus", packed).details.find((any) => any.type_url.endsWith("/agentd.v1.ErrorDetail"));
    if (found) {
      const detail = decode("ErrorDetail", found.value);
      const kind = kindName(detail.kind);
      return new (CLASSES[kind] ?? AgentdError)(message, kind, detail.hint || undefined);
    }
  }
  if (BROKEN.includes(error.code)) {
    return new Disconnected(`the connection to the daemon was lost: ${message}`, "DISCONNECTED");
  }
  const kind = BARE[error.code] ?? "INTERNAL";
  return new (CLASSES[kind] ?? AgentdError)(message, kind);
}
