// The way to the daemon: where it listens, and how it is started.

import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { AgentdError, NotRunning } from "./errors.js";

const LONGEST_PATH = 107;

/** The data folder that is meant. */
export function dataDir(env) {
  if (env.AGENTD_DATA_DIR) return resolve(env.AGENTD_DATA_DIR);
  const base = env.XDG_DATA_HOME ?? "";
  return join(isAbsolute(base) ? base : join(env.HOME || homedir(), ".local/share"), "agentd");
}

/** The socket that `AGENTD_SOCKET` names. */
export function namedSocket(env) {
  const path = env.AGENTD_SOCKET || undefined;
  if (path && !isAbsolute(path)) {
    const hint = "set AGENTD_SOCKET to a path that begins with /";
    throw new AgentdError(`the socket path ${path} is not absolute`, "CONFIGURATION", hint);
  }
  return path;
}

/** Where a daemon of the data folder may listen, the likeliest first. */
export function sockets(env) {
  const data = dataDir(env);
  const runtime = env.XDG_RUNTIME_DIR ?? "";
  const found = [
    lockedSocket(data),
    isAbsolute(runtime) ? join(runtime, "agentd/agentd.sock") : undefined,
    `/tmp/agentd-${process.geteuid()}/${digest(data)}.sock`,
    join(data, "agentd.sock"),
  ];
  return [...new Set(found.filter(Boolean))];
}

/** The socket that the lock file names. A daemon that is gone has left a name at which nobody answers. */
function lockedSocket(data) {
  try {
    const lines = readFileSync(join(data, "agentd.lock"), "utf8").slice(0, 8192).split("\n").slice(1, -1);
    return lines.find((line) => line.startsWith("socket "))?.slice(7);
  } catch {
    return undefined;
  }
}

/** FNV-1a, which names the socket of a data folder in /tmp. */
function digest(path) {
  let value = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(path)) value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n);
  return value.toString(16).padStart(16, "0");
}

/** True if somebody of this user listens there. Sockets of other users are not used. */
export async function listens(path) {
  try {
    if (Buffer.byteLength(path) > LONGEST_PATH || statSync(path).uid !== process.geteuid()) return false;
  } catch {
    return false;
  }
  return new Promise((resolve) => {
    const socket = connect(path);
    const done = (found) => {
      socket.destroy();
      resolve(found);
    };
    socket.once("connect", () => done(true));
    socket.once("error", () => done(false));
  });
}

/** True if two paths lead to one folder. */
export function sameFolder(one, other) {
  try {
    const [a, b] = [statSync(one), statSync(other)];
    return a.dev === b.dev && a.ino === b.ino;
  } catch {
    return one === other;
  }
}

/** Starts the daemon; done when it is ready. One that runs already will do. */
export async function start(agentctl, env) {
  const program = which(agentctl, env);
  if (!program) {
    const hint = "install agentd and agentctl, or name the program with the option `agentctl`";
    throw new NotRunning(`no daemon is running, and the program ${agentctl} was not found`, "NOT_RUNNING", hint);
  }
  await new Promise((resolve, reject) => {
    const child = execFile(program, ["start", "--json"], { env }, (error, _, said) => {
      if (!error) return resolve();
      const hint = "run `agentctl doctor` to see what is wrong";
      reject(new NotRunning(said.trim() || "the daemon did not start", "NOT_RUNNING", hint));
    });
    child.stdin?.end();
  });
}

function which(program, env) {
  // Programs of a desktop often lack the folder into which people install.
  const path = [...(env.PATH ?? "").split(delimiter), join(env.HOME || homedir(), ".local/bin")];
  const folders = program.includes("/") ? [""] : path.filter(isAbsolute);
  return folders.map((folder) => (folder ? join(folder, program) : resolve(program))).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return statSync(path).isFile();
    } catch {
      return false;
    }
  });
}
