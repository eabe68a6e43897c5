// Client of agentd: turns, events, approvals, tools of the client. The types are in index.d.ts and messages.d.ts.

export { Client, VERSION } from "./client.js";
export {
  AgentdError,
  Busy,
  Conflict,
  Disconnected,
  InvalidInput,
  NotFound,
  NotRunning,
  OtherVersion,
  TurnFailed,
} from "./errors.js";
export { Turn } from "./turn.js";
