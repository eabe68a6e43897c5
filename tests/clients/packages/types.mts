// Compiled, not run: the types of the Node package say what a caller may write.

import { Client, TurnFailed, type Event, type Tool, type v1 } from "agentd-client";

const buffer: Tool = { name: "buffer", description: "Reads.", run: async ({ path }) => `text of ${path}` };
const client = await new Client({ name: "types" }).connect();
const turn = await client.turn("Look", {
  mode: "accept_edits",
  onInterrupt: "deny",
  limits: { timeMs: 1000 },
  parts: [{ selection: { uri: "a.rs", text: "b", lines: { first: 1, last: 2 } } }, { text: "and this" }],
  tools: [buffer, { ...buffer, run: () => ({ picture: { data: new Uint8Array(), mediaType: "image/png" } }) }],
});
const words = (event: Event): string => (event.type === "text" ? event.text : "");
for await (const event of turn) {
  words(event);
  if (event.type === "approval") await event.always({ forGood: true });
  if (event.type === "toolResult") event.result.details?.stdout?.text.length;
}
const status: v1.SessionStatus | undefined = (await client.sessions())[0]?.status;
const failed: v1.TurnResult = new TurnFailed(turn.outcome!.usage ? "a" : (status ?? "b")).result;
for await (const event of client.watch()) if (event.kind === "turnEnded") event.turnEnded?.stopReason;
await client.call("Sessions", "Rename", { session: failed.turnId, title: "x" });
// @ts-expect-error
await client.call("Sessions", "Rename", { sesion: "x" });
// @ts-expect-error
await client.turn("x", { onInterrupt: "perhaps" });
