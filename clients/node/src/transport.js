// One connection to a daemon.

import { Client as Channel, Metadata, credentials } from "@grpc/grpc-js";
import { OtherVersion, fromRpc } from "./errors.js";
import { method } from "./messages.js";

const PROTOCOL_VERSION = 1;
const HANDSHAKE_MS = 5000;
const MAX_MESSAGE = 16 * 1024 * 1024;

const OPTIONS = {
  // A Unix socket has no host name, and the socket's path is none.
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

  /** Learns who is there, and refuses a daemon of another protocol version. */
  async shakeHands(name, version) {
    const request = { client: name, version, protocolVersion: PROTOCOL_VERSION };
    this.hello = await this.call("Daemon", "Hello", request, HANDSHAKE_MS);
    const theirs = this.hello.protocolVersion;
    if (theirs !== PROTOCOL_VERSION) {
      throw new OtherVersion(
        `the daemon at ${this.socket} speaks protocol ${theirs}, this client ${PROTOCOL_VERSION}`,
        "OTHER_VERSION",
        "install the package of the daemon's version",
      );
    }
    return this.hello;
  }

  /** Calls a method that takes one message and gives one. */
  call(service, name, request, timeoutMs) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    const options = timeoutMs ? { deadline: Date.now() + timeoutMs } : {};
    return new Promise((resolve, reject) => {
      const done = (error, answer) => (error ? reject(fromRpc(error)) : resolve(answer));
      this.channel.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, new Metadata(), options, done);
    });
  }

  /** Opens the stream of a method that takes one message and gives many. */
  receive(service, name, request) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    return this.#watched(this.channel.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request));
  }

  /** Opens the stream of a method that takes and gives many messages. */
  exchange(service, name) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    return this.#watched(this.channel.makeBidiStreamRequest(path, requestSerialize, responseDeserialize));
  }

  /** Sends many messages to a method that gives one. */
  async send(service, name, requests) {
    const { path, requestSerialize, responseDeserialize } = method(service, name);
    return new Promise((resolve, reject) => {
      const done = (error, answer) => (error ? reject(fromRpc(error)) : resolve(answer));
      const call = this.channel.makeClientStreamRequest(path, requestSerialize, responseDeserialize, done);
      for (const request of requests) call.write(request);
      call.end();
    });
  }

  /** Ends the connection and the streams in it. */
  close() {
    for (const call of this.#streams) call.cancel();
    this.channel.close();
  }

  /** A call that remembers its failure: it may come before anybody reads. */
  #watched(call) {
    this.#streams.add(call);
    call.on("error", (error) => (call.failure ??= error));
    call.on("status", () => this.#streams.delete(call));
    return call;
  }
}

/** The messages of a call; it fails as the call does. */
export async function* messages(call) {
  try {
    for await (const message of call) yield message;
  } catch (error) {
    throw fromRpc(error);
  }
  if (call.failure) throw fromRpc(call.failure);
}
