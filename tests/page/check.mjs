// Executes the page of `agentctl trace --html` in a DOM: hostile strings stay text, the search filters, every row can be reached.
// Usage: node check.mjs FOLDER_WITH_NODE_MODULES PAGE MARK
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, page, mark] = process.argv.slice(2);
const { JSDOM, VirtualConsole } = createRequire(join(modules, "package.json"))("jsdom");
const html = readFileSync(page, "utf8");

// A page in which anything that goes wrong is an error.
const open = (text) => {
  const problems = [];
  const virtualConsole = new VirtualConsole();
  virtualConsole.on("jsdomError", (error) => problems.push(error));
  const dom = new JSDOM(text, { runScripts: "dangerously", pretendToBeVisual: true, virtualConsole });
  assert.deepEqual(problems, []);
  const { document } = dom.window;
  const rows = () => [...document.querySelectorAll("#tree > .row")];
  const drawn = async () => {
    while (!document.getElementById("tree").dataset.drawn) await new Promise((done) => setTimeout(done, 1));
    return rows();
  };
  const key = (name) => {
    const at = document.activeElement || document.body;
    at.dispatchEvent(new dom.window.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  };
  const search = async (text) => {
    const box = document.getElementById("search");
    box.value = text;
    box.dispatchEvent(new dom.window.Event("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done, 150));
    return drawn();
  };
  return { dom, document, rows, drawn, key, search };
};

const count = (turn) => 1 + turn.spans.reduce((sum, span) => sum + countSpan(span), 0);
const countSpan = (span) =>
  1 + (span.children || []).reduce((sum, child) => sum + countSpan(child), 0) + (span.turns || []).reduce((sum, turn) => sum + count(turn), 0);
const dataOf = (text) => JSON.parse(text.split('type="application/json">')[1].split("</script>")[0]);

{
  const { dom, document, drawn, key, search } = open(html);
  const all = await drawn();
  const data = dataOf(html);
  assert.equal(all.length, data.turns.reduce((sum, turn) => sum + count(turn), 0), "every row is drawn");

  // Details of every row, by the keyboard alone.
  key("Home");
  for (let at = 0; at < all.length; at += 1) {
    assert.equal(document.activeElement, all[at], `row ${at} is reached`);
    key("Enter");
    assert.ok(all[at].querySelector(".details"), `row ${at} shows its details`);
    key("ArrowDown");
  }
  assert.ok(document.body.textContent.includes(mark), "hostile text is shown as it is");
  assert.equal(document.querySelectorAll("main img, main script, main a, main iframe, main [onerror]").length, 0);
  assert.equal(document.querySelectorAll("script").length, 2);
  assert.equal(dom.window.owned, undefined, "nothing of it was executed");

  // Folding hides what is below, and nothing else.
  key("Home");
  key("ArrowLeft"); // its details
  key("ArrowLeft"); // what is below
  assert.equal((await drawn()).length, all.length - count(data.turns[0]) + 1);
  key("ArrowRight");
  assert.equal((await drawn()).length, all.length);
  document.getElementById("fold").click();
  assert.equal((await drawn()).length, data.turns.length);

  // A search finds what is folded, with all that is above it.
  const found = await search("DELEGATE_TASK");
  assert.ok(found.length >= 2 && found.length < all.length, `${found.length} of ${all.length}`);
  assert.equal(found[0].getAttribute("aria-level"), "1");
  assert.match(document.getElementById("found").textContent, /match/);
  assert.equal((await search("there is no such text")).length, 0);
  assert.equal(document.getElementById("found").textContent, "0 matches");
  await search("");
  document.getElementById("unfold").click();
  assert.equal((await drawn()).length, all.length);
}

{
  // A thousand steps: only some are drawn at once, and in the end all are there.
  const data = dataOf(html);
  const [turn] = data.turns;
  turn.spans = Array.from({ length: 1000 }, (_, at) => turn.spans.map((span) => ({ ...span, id: `${span.id}-${at}` }))).flat();
  const [head, rest] = html.split('type="application/json">');
  const tail = rest.slice(rest.indexOf("</script>"));
  const large = `${head}type="application/json">${JSON.stringify({ ...data, turns: [turn] }).replaceAll("<", "\\u003c")}${tail}`;
  const { document, rows, drawn, key } = open(large);
  assert.ok(rows().length <= 200, "the first screen is drawn, and not all");
  const all = await drawn();
  assert.equal(all.length, count(turn));
  key("End");
  assert.equal(document.activeElement, all.at(-1));
}
console.log("the page is sound");
process.exit(0);
