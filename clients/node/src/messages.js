// The messages and services of agentd.v1, read from the .proto files of this package.

import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";

const PROTO = fileURLToPath(new URL("../proto", import.meta.url));

const files = readdirSync(`${PROTO}/agentd/v1`).filter((name) => name.endsWith(".proto"));

const definition = loadSync(
  files.map((name) => `agentd/v1/${name}`),
  { includeDirs: [PROTO], longs: Number, enums: String, defaults: true, oneofs: true },
);

/** Returns the description of a method for grpc. */
export function method(service, name) {
  return definition[`agentd.v1.${service}`][name];
}

/** Decodes a message. */
export function decode(name, bytes) {
  return definition[`agentd.v1.${name}`].deserialize(bytes);
}

/** Returns the value of an enum by its short name, such as `deny` of `OnInterrupt`; undefined if there is none. */
export function enumValue(name, prefix, short) {
  const wanted = `${prefix}_${short}`.toUpperCase();
  const values = definition[`agentd.v1.${name}`].type.value.map((value) => value.name);
  return values.find((value) => value === wanted || value === short);
}
