// The types of the package. Those of the protocol's messages are generated from its .proto files.

import type * as v1 from "./messages.js";

export type { v1 };
export declare const VERSION: string;

/** A message to be sent: what is absent has its default. */
export type Input<T> = T extends Buffer
  ? Uint8Array
  : T extends (infer E)[]
    ? Input<E>[]
    : T extends object
      ? { [K in keyof T]?: Input<T[K]> | undefined }
      : T;

// Errors

/** A call that failed. Decide by `kind`, never by the text; `hint` says what to do. */
export declare class AgentdError extends Error {
  constructor(message: string, kind?: string, hint?: string);
  /** As `BUSY`: the kinds of the protocol, and `NOT_RUNNING`, `OTHER_VERSION`, `DISCONNECTED`. */
  readonly kind: string;
  readonly hint: string | undefined;
}
/** No daemon is there, and none could be started. */
export declare class NotRunning extends AgentdError {}
/** The daemon speaks another version of the protocol. */
export declare class OtherVersion extends AgentdError {}
/** The connection broke, or the daemon is stopping. It is not known whether the call took effect. */
export declare class Disconnected extends AgentdError {}
/** The named thing does not exist. */
export declare class NotFound extends AgentdError {}
/** The request is malformed. */
export declare class InvalidInput extends AgentdError {}
/** No longer valid: already answered, or its subject has changed. */
export declare class Conflict extends AgentdError {}
/** A turn of the session is open, or the queue is full: try later. */
export declare class Busy extends AgentdError {}
/** A turn that ended without an answer. */
export declare class TurnFailed extends AgentdError {
  readonly result: v1.TurnResult;
  /** As `CANCELLED`. */
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
  /** Says no, or declines to answer. */
  reject(reason?: string): Promise<void>;
};

/** May this tool run? `preview` is what to show to a person: a diff, or the command line. */
export type Approval = Waiting & {
  type: "approval";
  tool: string;
  arguments: Json;
  preview: string;
  /** Lets it run, once. */
  approve(): Promise<void>;
  /** Lets it run, and stores the grants for this session or for good. */
  always(options?: { forGood?: boolean; rule?: string }): Promise<void>;
  /** Lets it run with other arguments. */
  edit(args: Json): Promise<void>;
};

/** The model asks. */
export type Question = Waiting & {
  type: "question";
  question: string;
  /** Answers to choose from; another text will do, too. */
  choices: string[];
  /** The answer is a password: not to be shown as it is typed, nor kept. */
  secret: boolean;
  /** Answers; an empty text takes the default, if there is one. */
  answer(text: string): Promise<void>;
};

/** An event of a turn. Skip types that you do not know: there may be more. */
export type Event =
  | (Raw & { type: "turnStarted"; model: string })
  /** The next piece of the answer. All pieces together are the answer, also after a broken connection. */
  | (Raw & { type: "text"; text: string })
  /** The next piece of the model's reasoning. */
  | (Raw & { type: "thought"; text: string })
  /** A message of the model is complete. Cut and without text, it was taken back. */
  | (Raw & { type: "message"; text: string; cut: boolean })
  | (Raw & { type: "toolCall"; callId: string; name: string; arguments: Json })
  /** A tool starts to run. */
  | (Raw & { type: "toolStarted"; callId: string; name: string })
  /** A line about the progress of a tool, or a piece of a command's output. */
  | (Raw & { type: "toolProgress"; text: string })
  /** A tool is done. `error` is the name of the error's code; `result` has all fields. */
  | (Raw & { type: "toolResult"; callId: string; name: string; text: string; error?: string; result: v1.ToolResult })
  /** Any other item is complete: an input, reasoning, a notice, a compaction. */
  | (Raw & { type: "item"; item: v1.Item })
  | Approval
  | Question
  /** An interrupt has its answer, from this client or another one. */
  | (Raw & { type: "resolved"; interruptId: string })
  /** Something to know that ends nothing. */
  | (Raw & { type: "warning"; code: string; message: string })
  | (Raw & { type: "ended"; result: v1.TurnResult })
  | (Raw & { type: "other" });

// Turns

/** A tool of this client, such as the unsaved buffers of an editor. */
export interface Tool {
  /** The model calls it `client_NAME`. */
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters?: Json;
  /** A call asks a person first. Otherwise it looks only. */
  changes?: boolean;
  /**
   * Gives what the model reads. What it throws is told to the model as an error. The signal says that nobody waits any more.
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

/** Fields of `TurnRequest.Start`, and what stands for some of them. */
export interface TurnOptions extends Fields {
  /** A folder that a new session sees as `/project`. */
  project?: string;
  /** Its tools may change it. */
  writable?: boolean;
  /** The mode of a new session. */
  mode?: Short<v1.SessionMode, "SESSION_MODE">;
  tools?: Tool[];
  allowedTools?: string[];
  /** The JSON Schema that the answer has to match. */
  answerSchema?: Json;
  onInterrupt?: Short<v1.OnInterrupt, "ON_INTERRUPT">;
  ifBusy?: Short<v1.IfBusy, "IF_BUSY">;
  slot?: Short<v1.Slot, "SLOT">;
  /** The folder in which commands start. */
  cwd?: string;
}

/**
 * A turn that runs in the daemon. Iterate over it for its events, once. When the connection breaks, the iteration finds the
 * daemon again and goes on where it was.
 */
export declare class Turn implements AsyncIterable<Event> {
  private constructor();
  readonly sessionId: string;
  readonly id: string;
  /** The result, once the turn is over. */
  readonly outcome: v1.TurnResult | undefined;
  /** The number of the last stored event that was read: where `client.attach` goes on. */
  readonly seq: number;
  [Symbol.asyncIterator](): AsyncIterator<Event>;
  /** Reads to the end. An interrupt is left to other clients, so start with `onInterrupt: "deny"` if there are none. */
  result(): Promise<v1.TurnResult>;
  /** Reads to the end and returns the answer; throws TurnFailed if there is none. */
  text(): Promise<string>;
  /** Adds input, which the model sees at its next step. */
  steer(text: string): Promise<void>;
  /** Ends the turn as soon as possible. Its end is among its events. */
  cancel(): Promise<void>;
  /** Leaves the turn, which goes on. Its tools of this client are gone then. */
  detach(): void;
}

// The client

export interface ClientOptions {
  /** Stands in the audit log beside your answers. */
  name?: string;
  /** The socket to use, instead of the one that the environment leads to. */
  socket?: string;
  /** Start a daemon where none runs; default true. */
  start?: boolean;
  /** The program that starts it; default `agentctl`. */
  agentctl?: string;
  /** Stands for this process's environment. */
  env?: { [name: string]: string | undefined };
}

/** A connection to the daemon of this user. */
export declare class Client {
  constructor(options?: ClientOptions);
  readonly name: string;
  /** Connects, which the first call does as well. */
  connect(): Promise<this>;
  /** Ends the connection, and whatever is iterated over. Turns go on in the daemon. */
  close(): void;
  /** True behind `close`. */
  readonly closed: boolean;
  /**
   * Calls any method that takes one message and gives one. With `retry`, it is called again after a broken connection: for
   * what changes nothing.
   */
  call<S extends keyof v1.Methods, M extends keyof v1.Methods[S]>(
    service: S,
    method: M,
    request: v1.Methods[S][M] extends [infer Request, unknown] ? Input<Request> : never,
    options?: { retry?: boolean },
  ): Promise<v1.Methods[S][M] extends [unknown, infer Response] ? Response : never>;
  /** Starts a turn, in a new session or in an existing one. Without `text` it continues one that was interrupted. */
  turn(text?: string, options?: TurnOptions): Promise<Turn>;
  /** Runs a turn to its end and returns the answer. What would ask a person is denied, unless `onInterrupt` is set. */
  ask(text?: string, options?: TurnOptions): Promise<string>;
  /** Joins a turn: the open one of the session, or that one, behind the event with that number. */
  attach(session: string, options?: { turnId?: string; afterSeq?: number }): Promise<Turn>;
  /**
   * All events of a session behind that number, stored ones and new ones, without an end. Where the daemon is gone, it waits
   * until there is one again.
   */
  follow(session: string, options?: { afterSeq?: number }): AsyncGenerator<Event>;
  /**
   * What happens in all sessions, without an end. Where the daemon is gone, it waits until there is one again, and begins with
   * a new snapshot.
   */
  watch(options?: { snapshot?: boolean; children?: boolean }): AsyncGenerator<v1.WatchEvent>;
  /** What waits for an answer, in a session or in all, oldest first. */
  interrupts(session?: string): Promise<v1.Interrupt[]>;
  /** Answers an interrupt, whichever client's turn it is of. A second answer is a Conflict. */
  answer(interruptId: string, answer: Input<v1.Answer>): Promise<void>;
  /** The sessions, last used first: 100, or `limit`. */
  sessions(options?: { limit?: number; children?: boolean }): Promise<v1.SessionSummary[]>;
  /** A session by its id, the start of one, its title, or `last`. */
  session(session: string): Promise<v1.Session>;
  /** The newest items of a session, oldest first. */
  items(session: string, options?: { afterSeq?: number; limit?: number }): Promise<v1.NumberedItem[]>;
  /** Puts a file into the session: bytes with a name, or the file at a path. Its answer has the path for tools. */
  upload(session: string, content: Uint8Array | string, name?: string): Promise<v1.UploadResponse>;
  /** How the daemon is doing. */
  status(): Promise<v1.StatusResponse>;
}
