// The types of the package. Those of the protocol's messages are generated from its .proto files.

import type * as v1 from "./messages.js";

export type { v1 };
export declare const VERSION: string;

/** A message to send; absent fields have their defaults. */
export type Input<T> = T extends Buffer
  ? Uint8Array
  : T extends (infer E)[]
    ? Input<E>[]
    : T extends object
      ? { [K in keyof T]?: Input<T[K]> | undefined }
      : T;

// Errors

/** A failed call. Decide by `kind`, never by the text; `hint` suggests a fix. */
export declare class AgentdError extends Error {
  constructor(message: string, kind?: string, hint?: string);
  /** Such as `BUSY`: a kind of the protocol, or `NOT_RUNNING`, `OTHER_VERSION` or `DISCONNECTED`. */
  readonly kind: string;
  readonly hint: string | undefined;
}
/** No daemon is running, and none could be started. */
export declare class NotRunning extends AgentdError {}
/** The daemon uses a different protocol version. */
export declare class OtherVersion extends AgentdError {}
/** The connection broke, or the daemon is stopping. It is not known whether the call took effect. */
export declare class Disconnected extends AgentdError {}
/** The named thing does not exist. */
export declare class NotFound extends AgentdError {}
/** The request is malformed. */
export declare class InvalidInput extends AgentdError {}
/** No longer valid: already answered, or its subject has changed. */
export declare class Conflict extends AgentdError {}
/** A turn of the session is open, or the queue is full; retry later. */
export declare class Busy extends AgentdError {}
/** A turn that ended without an answer. */
export declare class TurnFailed extends AgentdError {
  readonly result: v1.TurnResult;
  /** Such as `CANCELLED`. */
  readonly stopReason: string;
}

// Events

type Json = { [key: string]: any };
type Raw = {
  /** The whole event. */
  raw: v1.Event;
};
type Waiting = Raw & {
  interrupt: v1.Interrupt;
  /** Rejects the call, or declines to answer. */
  reject(reason?: string): Promise<void>;
};

/** A tool call that needs an approval. `preview` is for display: a diff, or the command line. */
export type Approval = Waiting & {
  type: "approval";
  tool: string;
  arguments: Json;
  preview: string;
  /** Approves the call once. */
  approve(): Promise<void>;
  /** Approves the call, and stores the grants for this session or permanently. */
  always(options?: { forGood?: boolean; rule?: string }): Promise<void>;
  /** Approves the call with other arguments. */
  edit(args: Json): Promise<void>;
};

/** A question of the model. */
export type Question = Waiting & {
  type: "question";
  question: string;
  /** Suggested answers; any other text is accepted too. */
  choices: string[];
  /** True if the answer is a password, which must not be shown or stored. */
  secret: boolean;
  /** Answers the question; an empty text selects the default, if any. */
  answer(text: string): Promise<void>;
};

/** An event of a turn. Ignore unknown types, because more may be added. */
export type Event =
  | (Raw & { type: "turnStarted"; model: string })
  /** The next piece of the answer. All pieces together are the answer, also after a broken connection. */
  | (Raw & { type: "text"; text: string })
  /** The next piece of the model's reasoning. */
  | (Raw & { type: "thought"; text: string })
  /** A message of the model is complete. If it is cut and has no text, it was withdrawn. */
  | (Raw & { type: "message"; text: string; cut: boolean })
  | (Raw & { type: "toolCall"; callId: string; name: string; arguments: Json })
  /** A tool starts to run. */
  | (Raw & { type: "toolStarted"; callId: string; name: string })
  /** A line about the progress of a tool, or a piece of a command's output. */
  | (Raw & { type: "toolProgress"; text: string })
  /** A tool has finished. `error` is the name of the error's code; `result` has all fields. */
  | (Raw & { type: "toolResult"; callId: string; name: string; text: string; error?: string; result: v1.ToolResult })
  /** Any other item is complete: an input, reasoning, a notice, a compaction. */
  | (Raw & { type: "item"; item: v1.Item })
  | Approval
  | Question
  /** An interrupt was answered, by this client or another one. */
  | (Raw & { type: "resolved"; interruptId: string })
  /** A warning, after which the turn continues. */
  | (Raw & { type: "warning"; code: string; message: string })
  | (Raw & { type: "ended"; result: v1.TurnResult })
  | (Raw & { type: "other" });

// Turns

/** A tool of this client, such as the unsaved buffers of an editor. */
export interface Tool {
  /** The name for the model is `client_NAME`. */
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters?: Json;
  /** True if a call changes something and needs an approval. Otherwise it only reads. */
  changes?: boolean;
  /**
   * Returns the result for the model; a thrown error is reported to it. The signal aborts if the result is no longer needed.
   */
  run(args: any, signal: AbortSignal): ToolAnswer | Promise<ToolAnswer>;
}
export type ToolAnswer = string | { text?: string; picture?: Input<v1.InputPart.Picture> } | undefined | void;

type Short<Name extends string, Prefix extends string> = Name extends `${Prefix}_${infer Rest}`
  ? Name | Lowercase<Rest>
  : Name;
type Fields = Omit<
  Input<v1.TurnRequest.Start>,
  "text" | "tools" | "allowedTools" | "answerSchema" | "onInterrupt" | "ifBusy" | "slot" | "client"
>;

/** Fields of `TurnRequest.Start`, with shorter forms of some. */
export interface TurnOptions extends Fields {
  /** Folder that a new session uses as `/project`. */
  project?: string;
  /** True if tools may change it. */
  writable?: boolean;
  /** The mode of a new session. */
  mode?: Short<v1.SessionMode, "SESSION_MODE">;
  tools?: Tool[];
  allowedTools?: string[];
  /** JSON Schema of the answer. */
  answerSchema?: Json;
  onInterrupt?: Short<v1.OnInterrupt, "ON_INTERRUPT">;
  ifBusy?: Short<v1.IfBusy, "IF_BUSY">;
  slot?: Short<v1.Slot, "SLOT">;
  /** The folder in which commands start. */
  cwd?: string;
}

/**
 * A turn that runs in the daemon. Iterate over it for its events, once. If the connection breaks, the iteration finds the
 * daemon again and continues where it was.
 */
export declare class Turn implements AsyncIterable<Event> {
  private constructor();
  readonly sessionId: string;
  readonly id: string;
  /** Result of the turn, once it has ended. */
  readonly outcome: v1.TurnResult | undefined;
  /** Number of the last stored event that was read, from which `client.attach` can continue. */
  readonly seq: number;
  [Symbol.asyncIterator](): AsyncIterator<Event>;
  /** Reads to the end. Interrupts are left to other clients, so start with `onInterrupt: "deny"` if there are none. */
  result(): Promise<v1.TurnResult>;
  /** Reads to the end and returns the answer; throws TurnFailed if there is none. */
  text(): Promise<string>;
  /** Adds input, which the model sees at its next step. */
  steer(text: string): Promise<void>;
  /** Cancels the turn. Its events report the end. */
  cancel(): Promise<void>;
  /** Leaves the turn, which continues without this client's tools. */
  detach(): void;
}

// The client

export interface ClientOptions {
  /** Name in the audit log for answers of this client. */
  name?: string;
  /** Socket to use instead of the one determined by the environment. */
  socket?: string;
  /** Starts a daemon if none runs; default true. */
  start?: boolean;
  /** The program that starts it; default `agentctl`. */
  agentctl?: string;
  /** Replaces the environment of this process. */
  env?: { [name: string]: string | undefined };
}

/** A connection to the daemon of this user. */
export declare class Client {
  constructor(options?: ClientOptions);
  readonly name: string;
  /** Connects. The first call also does this. */
  connect(): Promise<this>;
  /** Closes the connection and ends all iterations. Turns continue in the daemon. */
  close(): void;
  /** True after `close`. */
  readonly closed: boolean;
  /**
   * Calls any unary method. With `retry`, it is called again after a broken connection, which is meant for methods without
   * side effects.
   */
  call<S extends keyof v1.Methods, M extends keyof v1.Methods[S]>(
    service: S,
    method: M,
    request: v1.Methods[S][M] extends [infer Request, unknown] ? Input<Request> : never,
    options?: { retry?: boolean },
  ): Promise<v1.Methods[S][M] extends [unknown, infer Response] ? Response : never>;
  /** Starts a turn in a new or an existing session. Without `text`, an interrupted turn is continued. */
  turn(text?: string, options?: TurnOptions): Promise<Turn>;
  /** Runs a turn to its end and returns the answer. Interrupts are denied unless `onInterrupt` is set. */
  ask(text?: string, options?: TurnOptions): Promise<string>;
  /** Joins the open turn of a session or the given turn, after the event with that number. */
  attach(session: string, options?: { turnId?: string; afterSeq?: number }): Promise<Turn>;
  /**
   * Yields all stored and new events of a session after that number, without an end. If the daemon stops, it waits for a new
   * one.
   */
  follow(session: string, options?: { afterSeq?: number }): AsyncGenerator<Event>;
  /**
   * Yields changes in all sessions, without an end. If the daemon stops, it waits for a new one and begins with a new
   * snapshot.
   */
  watch(options?: { snapshot?: boolean; children?: boolean }): AsyncGenerator<v1.WatchEvent>;
  /** Returns the pending interrupts of a session or of all sessions, oldest first. */
  interrupts(session?: string): Promise<v1.Interrupt[]>;
  /** Answers an interrupt of any client's turn. A second answer fails with Conflict. */
  answer(interruptId: string, answer: Input<v1.Answer>): Promise<void>;
  /** Returns the most recently used sessions: 100, or `limit`. */
  sessions(options?: { limit?: number; children?: boolean }): Promise<v1.SessionSummary[]>;
  /** Returns a session by ID, unique prefix, title, or `last`. */
  session(session: string): Promise<v1.Session>;
  /** Asks a session's model a side question, also during a turn. The history gets neither it nor the answer. */
  askAside(session: string, question: string): Promise<string>;
  /** Returns the newest items of a session, oldest first. */
  items(session: string, options?: { afterSeq?: number; limit?: number }): Promise<v1.NumberedItem[]>;
  /** Uploads a file to the session: bytes with a name, or the file at a path. The response has the path for tools. */
  upload(session: string, content: Uint8Array | string, name?: string): Promise<v1.UploadResponse>;
  /** Returns the state of the daemon. */
  status(): Promise<v1.StatusResponse>;
}
