// One connection to a daemon.

import { Client as Channel, Metadata, credentials } from "@grpc/grpc-js";
import { OtherVersion, fromRpc } from "./errors.js";
import { method } from "./messages.js";

const PROTOCOL_VERSION = 1;
const HANDSHAKE_MS = 5000;
const MAX_MESSAGE = 16 * 1024 * 1024;

const OPTIONS = {
  // A Unix socket has no host name, and its path is not a valid one.
  "grpc.default_authority": "localhost",
  "grpc.max_receive_message_length": MAX_MESSAGE,
  "grpc.max_send_message_length": MAX_MESSAGE,
  // A new channel must not wait because an older one to the same path has failed.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1000,
  "grpc.enable_http_proxy": 0,
};

/** A channel to one socket, after the handshake. */
export class Connection {
  #streams = new Set();

  constructor(socket) {
    this.socket = socket;
    this.hello = undefined;
    this.channel = new Channel(`unix:${socket}`, credentials.createInsecure(), OPTIONS);
  }

  /** Performs the handshake, and rejects a daemon with a different protocol version. */
  async shakeHands(name, version) {
    const request = { client: name, version, protocolVersion: PROTOCOL_VERSION };
    this.hello = await this.call("Daemon", "Hello", request, HANDSHAKE_MS);
    const theirs = this.hello.protocolVersion;
    if (theirs !== PROTOCOL_VERSION) {
      throw new OtherVersion(
        `the daemon at ${this.socket} uses protocol version ${theirs}; this client requires ${PROTOCOL_VERSION}`,
        "OTHER_VERSION",
        "install the client package with the version of the daemon",
      );
    }
    return this.hello;
  }

  /** Calls a unary method. */
  call(service, name, request, timeoutMs) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    const options = timeoutMs ? { deadline: Date.now() + timeoutMs } : {};
    return new Promise((resolve, reject) => {
      const done = (error, answer) => (error ? reject(fromRpc(error)) : resolve(answer));
      this.channel.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, new Metadata(), options, done);
    });
  }

  /** Opens a server stream. */
  receive(service, name, request) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    return this.#watched(this.channel.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request));
  }

  /** Opens a bidirectional stream. */
  exchange(service, name) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    return this.#watched(this.channel.makeBidiStreamRequest(path, requestSerialize, responseDeserialize));
  }

  /** Sends messages to a client-streaming method. */
  async send(service, name, requests) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    return new Promise((resolve, reject) => {
      const done = (error, answer) => (error ? reject(fromRpc(error)) : resolve(answer));
      const call = this.channel.makeClientStreamRequest(path, requestSerialize, responseDeserialize, done);
      for (const request of requests) call.write(request);
      call.end();
    });
  }

  /** Closes the connection and its streams. */
  close() {
    for (const call of this.#streams) call.cancel();
    this.channel.close();
  }

  /** Records the failure of a call, which may occur before it is read. */
  #watched(call) {
    this.#streams.add(call);
    call.on("error", (error) => (call.failure ??= error));
    call.on("status", () => this.#streams.delete(call));
    return call;
  }
}

/** Yields the messages of a call, and fails with its error. */
export async function* messages(call) {
  try {
    for await (const message of call) yield message;
  } catch (error) {
    throw fromRpc(error);
  }
  if (call.failure) throw fromRpc(call.failure);
}
