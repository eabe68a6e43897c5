// Finds and starts the daemon.

import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { AgentdError, NotRunning } from "./errors.js";

const MAX_PATH_BYTES = 107;

/** Returns the data folder. */
export function dataDir(env) {
  if (env.AGENTD_DATA_DIR) return resolve(env.AGENTD_DATA_DIR);
  const base = env.XDG_DATA_HOME ?? "";
  return join(isAbsolute(base) ? base : join(env.HOME || homedir(), ".local/share"), "agentd");
}

/** Returns the socket named by `AGENTD_SOCKET`. */
export function namedSocket(env) {
  const path = env.AGENTD_SOCKET || undefined;
  if (path && !isAbsolute(path)) {
    const hint = "set AGENTD_SOCKET to a path that begins with /";
    throw new AgentdError(`the socket path ${path} is not absolute`, "CONFIGURATION", hint);
  }
  return path;
}

/** Returns the paths at which a daemon of the data folder may listen, most likely first. */
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

/** Returns the socket named by the lock file. If the daemon has exited, the socket may be dead. */
function lockedSocket(data) {
  try {
    const lines = readFileSync(join(data, "agentd.lock"), "utf8").slice(0, 8192).split("\n").slice(1, -1);
    return lines.find((line) => line.startsWith("socket "))?.slice(7);
  } catch {
    return undefined;
  }
}

/** Computes the FNV-1a hash that names the socket of a data folder in /tmp. */
function digest(path) {
  let value = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(path)) value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n);
  return value.toString(16).padStart(16, "0");
}

/** Returns true if a process of this user listens there. Sockets of other users are not used. */
export async function listens(path) {
  try {
    if (Buffer.byteLength(path) > MAX_PATH_BYTES || statSync(path).uid !== process.geteuid()) return false;
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

/** Returns true if two paths lead to the same folder. */
export function sameFolder(one, other) {
  try {
    const [a, b] = [statSync(one), statSync(other)];
    return a.dev === b.dev && a.ino === b.ino;
  } catch {
    return one === other;
  }
}

/** Starts the daemon unless it runs, and resolves when it is ready. */
export async function start(agentctl, env) {
  const program = which(agentctl, env);
  if (!program) {
    const hint = "install agentd and agentctl, or name the program with the option `agentctl`";
    throw new NotRunning(`no daemon is running, and the program ${agentctl} was not found`, "NOT_RUNNING", hint);
  }
  await new Promise((resolve, reject) => {
    // The packages connect to a socket of this machine.
    const here = { ...env, AGENTD_HOST: "" };
    const child = execFile(program, ["start", "--json"], { env: here }, (error, _, output) => {
      if (!error) return resolve();
      const hint = "run `agentctl doctor` to see what is wrong";
      reject(new NotRunning(output.trim() || "the daemon did not start", "NOT_RUNNING", hint));
    });
    child.stdin?.end();
  });
}

function which(program, env) {
  // The PATH of desktop programs often lacks the usual installation folder.
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
