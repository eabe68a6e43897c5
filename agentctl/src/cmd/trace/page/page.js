"use strict";
// Renders the trace that the page contains as JSON. All texts are inserted as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const tree = byId("tree");
  // Number of rows rendered immediately; the rest is rendered when the browser is idle.
  const CHUNK = 200;
  // Number of characters of a text shown initially.
  const LONG = 4000;

  const made = (tag, kind, text) => {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // Figures.
  const number = (n) => n.toLocaleString("en-US");
  const short = (n) => (n < 10000 ? number(n) : n < 1e6 ? (n / 1000).toFixed(1) + "k" : (n / 1e6).toFixed(2) + "M");
  const span = (ms) => {
    if (ms < 1000) return Math.round(ms) + " ms";
    if (ms < 60000) return (Math.floor(ms / 100) / 10).toFixed(1) + " s";
    const [m, s, h] = [Math.floor(ms / 60000), Math.floor(ms / 1000) % 60, Math.floor(ms / 3600000)];
    return ms < 3600000 ? m + " min " + String(s).padStart(2, "0") + " s" : h + " h " + String(m % 60).padStart(2, "0") + " min";
  };
  const money = (usage) => {
    if (!usage) return "";
    const micro = usage.cost_microusd;
    if (micro === undefined || micro === null) return usage.unpriced_calls ? "?" : "";
    const sum = micro >= 1e6 || micro === 0 ? "$" + (micro / 1e6).toFixed(2) : "$0." + String(Math.ceil(micro / 100)).padStart(4, "0");
    return sum + (usage.unpriced_calls ? "+?" : "");
  };
  const tokens = (usage) =>
    usage && usage.prompt_tokens + usage.completion_tokens > 0 ? short(usage.prompt_tokens) + " → " + short(usage.completion_tokens) : "";
  const firstLine = (text) => (text || "").slice(0, 400).trim().replace(/\s+/g, " ");
  const spaced = (name) => String(name).replace(/_/g, " ");
  const usageOf = (tool) => {
    const sum = {};
    for (const part of [tool.sampled, tool.delegated]) {
      for (const [key, value] of Object.entries(part || {})) sum[key] = (sum[key] || 0) + value;
    }
    return Object.keys(sum).length ? { prompt_tokens: 0, completion_tokens: 0, ...sum } : null;
  };
  const answered = (asked) => {
    if (!asked.answer) return "no answer";
    const by = asked.by === undefined ? "" : typeof asked.by === "object" ? " by " + asked.by.client : " by " + (asked.by === "deadline" ? "the deadline" : "the daemon");
    const text = asked.answer.text !== undefined ? ": " + asked.answer.text : asked.answer.reason ? ": " + asked.answer.reason : "";
    return asked.answer.answer + by + text;
  };

  // A row for each turn and each span, parents before their children.
  const rows = [];
  const addTurn = (turn, depth, parent, root) => {
    const row = { index: rows.length, depth, parent, kind: "turn", it: turn, at: Date.parse(turn.at), end: Date.parse(turn.end), unfolded: true };
    row.root = root || row;
    rows.push(row);
    for (const span of turn.spans) addSpan(span, depth + 1, row);
  };
  const addSpan = (span, depth, parent) => {
    const row = { index: rows.length, depth, parent, kind: span.kind, it: span, at: Date.parse(span.at), end: Date.parse(span.end), unfolded: true, root: parent.root };
    rows.push(row);
    for (const child of span.children || []) addSpan(child, depth + 1, row);
    for (const turn of span.turns || []) addTurn(turn, depth + 1, row, parent.root);
  };
  for (const turn of data.turns) addTurn(turn, 0, null, null);
  for (const row of rows) {
    row.hasChildren = row.index + 1 < rows.length && rows[row.index + 1].depth > row.depth;
    row.isBad = row.kind === "warning" || (row.kind === "tool" && Boolean(row.it.error || row.it.exit_code))
      || (row.kind === "turn" && Boolean(row.it.outcome && row.it.outcome.reason !== "completed"));
    row.isCut = Boolean(row.it.is_open);
  }

  // Label of a row: its kind, its subject, and secondary text.
  const label = ({ kind, it }) => {
    switch (kind) {
      case "turn": {
        const end = it.outcome ? spaced(it.outcome.reason) : "not ended";
        const waited = it.waited_ms ? ", waited " + span(it.waited_ms) : "";
        return ["turn " + it.number, it.agent, end + waited + (it.model ? " · " + it.model : "")];
      }
      case "input": return [it.steered ? "added" : "input", firstLine(it.text), ""];
      case "model_call": {
        const first = it.first_token_ms === undefined ? "" : "first token " + (it.is_estimated ? "about " : "") + span(it.first_token_ms);
        const retries = it.retries ? it.retries + (it.retries === 1 ? " retry" : " retries") : "";
        return [it.step ? "step " + it.step : "model", it.model || "model call", [first, retries].filter(Boolean).join(", ")];
      }
      case "message": return ["says", firstLine(it.text), ""];
      case "reasoning": return ["thinks", firstLine(it.text), ""];
      case "tool": {
        const end = it.error ? it.error + " " : it.exit_code ? "exit " + it.exit_code + " " : "";
        return ["tool", it.name, end + firstLine(it.ran_with || it.arguments)];
      }
      case "interrupt": {
        const subject = it.ask.kind === "approval" ? "run " + it.ask.tool + "?" : firstLine(it.ask.question);
        return ["asks", subject, answered(it)];
      }
      case "subagent": return ["agent", it.name, it.task];
      case "compaction": {
        const report = it.report;
        return ["compaction", report ? short(report.tokens_before) + " → " + short(report.tokens_after) + " tokens" : "", ""];
      }
      case "notice": return ["notice", spaced(it.topic), firstLine(it.text)];
      case "warning": return ["warning", it.code, it.message];
      case "choice": return ["choice", it.choice, it.reason];
      default: return [spaced(kind), "", ""];
    }
  };
  const usage = ({ kind, it }) => (kind === "tool" ? usageOf(it) : kind === "turn" || kind === "model_call" ? it.usage : null);

  // Searchable text of a row.
  const textOf = (row) => {
    if (row.searched === undefined) {
      const skipped = new Set(["children", "turns", "spans"]);
      const parts = label(row);
      const gather = (value, key) => {
        if (skipped.has(key)) return;
        if (value && typeof value === "object") Object.entries(value).forEach(([key, value]) => gather(value, key));
        else if (typeof value === "string") parts.push(value);
      };
      Object.entries(row.it).forEach(([key, value]) => gather(value, key));
      row.searched = parts.join("\n").toLowerCase();
    }
    return row.searched;
  };

  // Details.
  const text = (where, title, content, look) => {
    if (content === undefined || content === null || content === "") return;
    if (title) where.append(made("h2", "", title));
    const pre = made("pre", look || "");
    const fill = (part) => (look === "diff" ? pre.replaceChildren(...part.split("\n").map(diffLine)) : (pre.textContent = part));
    fill(content.length > LONG ? content.slice(0, LONG) : content);
    where.append(pre);
    if (content.length > LONG) {
      const more = made("button", "more", "Show all " + number(content.length) + " characters");
      more.type = "button";
      more.addEventListener("click", () => { fill(content); more.remove(); });
      where.append(more);
    }
  };
  const diffLine = (line) => {
    const kind = /^(\+\+\+|---|@@)/.test(line) ? "place" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
    return made("span", kind, line);
  };
  const pretty = (json) => {
    try { return JSON.stringify(typeof json === "string" ? JSON.parse(json) : json, null, 2); } catch { return String(json); }
  };
  const isDiff = (text) => /^(---|\+\+\+|@@) /m.test(text || "");
  const facts = (where, pairs) => {
    const list = made("dl");
    for (const [name, value] of pairs) {
      if (value === undefined || value === null || value === "") continue;
      list.append(made("dt", "", name), made("dd", "", String(value)));
    }
    if (list.childElementCount) where.append(list);
  };
  const usageFacts = (it) => it ? [
    ["input tokens", number(it.prompt_tokens)], ["from the cache", it.cached_tokens ? number(it.cached_tokens) : ""],
    ["into the cache", it.cache_write_tokens ? number(it.cache_write_tokens) : ""],
    ["output tokens", number(it.completion_tokens)], ["of which thoughts", it.reasoning_tokens ? number(it.reasoning_tokens) : ""],
    ["cost", money(it)],
  ] : [];
  const fill = (where, row) => {
    const it = row.it;
    const times = [["began", new Date(row.at).toISOString().replace("T", " ").slice(0, 23) + " UTC"], ["took", span(row.end - row.at) + (row.isCut ? ", cut off" : "")]];
    switch (row.kind) {
      case "turn": {
        const end = it.outcome;
        facts(where, [["id", it.turn_id], ["trace", it.trace_id], ["model", it.model], ["because", it.reason], ["steps", end && end.steps],
          ...times, ["waited", it.waited_ms ? span(it.waited_ms) : ""], ...usageFacts(it.usage)]);
        if (end && end.error) text(where, "Error", end.error.message + (end.error.hint ? "\nhint: " + end.error.hint : ""));
        if (end) text(where, "Answer", end.text, "prose");
        if (end && end.files) text(where, "Files", end.files.map((file) => file.change + " " + file.path).join("\n"));
        break;
      }
      case "model_call":
        facts(where, [["slot", it.slot], ["model", it.model], ["first token", it.first_token_ms === undefined ? "" : span(it.first_token_ms)], ...times,
          ["times", it.is_estimated ? "estimated" : ""], ["retries", it.retries || ""],
          ["repeated", it.prompt && it.prompt.bytes ? Math.floor((100 * it.prompt.repeated_bytes) / it.prompt.bytes) + " % of the request" : ""],
          ["changed by", it.prompt && it.prompt.broken_by], ...usageFacts(it.usage)]);
        break;
      case "tool": {
        const details = it.details || {};
        facts(where, [["outcome", it.error || (it.ran ? "ran" : "did not run")], ["exit code", it.exit_code], ["ran for", it.duration_ms === undefined ? "" : span(it.duration_ms)],
          ...times, ["id", it.call_id], ...usageFacts(usageOf(it))]);
        text(where, "Arguments", pretty(it.arguments));
        if (it.ran_with) text(where, "Ran with", pretty(it.ran_with));
        if (details.diff) text(where, "Change", details.diff.text, "diff");
        text(where, "Result", it.text, !details.diff && isDiff(it.text) ? "diff" : "");
        if (details.stdout && !it.text.includes(details.stdout.text.trim())) text(where, "Standard output", details.stdout.text);
        if (details.stderr && !it.text.includes(details.stderr.text.trim())) text(where, "Standard error", details.stderr.text);
        if (it.files) text(where, "Files", it.files.map((file) => file.change + " " + file.path).join("\n"));
        break;
      }
      case "interrupt": {
        const ask = it.ask;
        facts(where, [["because", ask.reason], ["risk", ask.risk], ["answer", answered(it)], ["waited", span(row.end - row.at)], ["choices", (ask.choices || []).join(", ")]]);
        text(where, "Question", ask.question, "prose");
        text(where, "Preview", ask.preview, isDiff(ask.preview) ? "diff" : "");
        if (ask.args) text(where, "Arguments", pretty(ask.args));
        if (it.answer && it.answer.args) text(where, "Changed to", pretty(it.answer.args));
        break;
      }
      case "subagent": facts(where, [["session", it.session_id], ["task", it.task], ...times]); break;
      case "compaction": {
        const report = it.report || {};
        facts(where, [["cause", report.cause], ["strategy", report.strategy], ["model", report.model], ["problem", report.problem], ...times]);
        text(where, "Summary", it.summary, "prose");
        break;
      }
      default:
        text(where, "", it.text || it.message || it.reason, "prose");
        facts(where, times);
    }
  };

  // Rendering.
  const draw = (row) => {
    const [kind, name, quiet] = label(row);
    const element = made("div", "row " + row.kind + (row.isBad ? " bad" : "") + (row.isCut ? " cut" : "") + (row.depth ? " deep" : ""));
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String(row.depth + 1));
    element.tabIndex = -1;
    element.style.setProperty("--depth", String(Math.min(row.depth, 12)));
    element.dataset.row = String(row.index);
    const head = made("div", "head");
    const title = made("div", "name");
    const fold = made("button", "fold", row.hasChildren ? "▾" : "");
    fold.type = "button";
    fold.tabIndex = -1;
    fold.setAttribute("aria-hidden", "true");
    const caption = made("span", "text");
    caption.append(made("b", "", name), made("i", "", quiet ? "  " + quiet : ""));
    title.append(fold, made("span", "kind", kind), caption);
    const track = made("div", "track");
    const bar = made("div", "span");
    const whole = Math.max(row.root.end - row.root.at, 1);
    bar.style.left = Math.min(99.5, (100 * (row.at - row.root.at)) / whole) + "%";
    bar.style.width = Math.max(0, (100 * (row.end - row.at)) / whole) + "%";
    track.append(bar);
    const took = row.end - row.at;
    head.append(title, track, made("span", "number", took || row.isCut ? span(took) : ""), made("span", "number", tokens(usage(row))), made("span", "number", money(usage(row))));
    element.append(head);
    row.element = element;
    row.fold = fold;
    if (row.hasChildren) element.setAttribute("aria-expanded", String(row.unfolded));
    if (row.hasDetails) showDetails(row, true);
    return element;
  };
  const showDetails = (row, shown) => {
    row.hasDetails = shown;
    if (!row.element) return;
    row.element.querySelector(":scope > .details")?.remove();
    if (!shown) return;
    const details = made("div", "details");
    fill(details, row);
    row.element.append(details);
  };

  let query = "";
  let current = null;
  let drawing = 0;
  const isShown = (row) => {
    if (query && !row.matches) return false;
    for (let above = row.parent; above; above = above.parent) if (!above.unfolded && !query) return false;
    return true;
  };
  // Renders the visible rows: the first ones, including the selected one, immediately, and the others later.
  const render = () => {
    const mine = ++drawing;
    const shown = rows.filter(isShown);
    tree.replaceChildren();
    const later = window.requestIdleCallback || ((work) => setTimeout(work, 0));
    const part = (from, to) => {
      if (mine !== drawing) return;
      const piece = document.createDocumentFragment();
      for (const row of shown.slice(from, to)) {
        if (!row.element) draw(row);
        row.fold.textContent = row.hasChildren ? (row.unfolded || query ? "▾" : "▸") : "";
        if (row.hasChildren) row.element.setAttribute("aria-expanded", String(row.unfolded));
        piece.append(row.element);
      }
      tree.append(piece);
      if (to < shown.length) later(() => part(to, to + CHUNK));
      else tree.dataset.drawn = String(shown.length);
    };
    delete tree.dataset.drawn;
    part(0, Math.max(CHUNK, shown.indexOf(current) + 1));
    if (!current || !isShown(current)) choose(shown[0], false);
    return shown;
  };
  const choose = (row, focus) => {
    if (!row) return;
    if (current && current.element) current.element.tabIndex = -1;
    current = row;
    if (!row.element) draw(row);
    row.element.tabIndex = 0;
    if (focus) {
      row.element.focus({ preventScroll: true });
      row.element.scrollIntoView?.({ block: "nearest" });
    }
  };
  const setFold = (row, unfolded) => {
    if (!row.hasChildren || row.unfolded === unfolded) return;
    row.unfolded = unfolded;
    render();
    choose(row, true);
  };
  const search = () => {
    query = byId("search").value.trim().toLowerCase();
    let count = 0;
    for (const row of rows) row.matches = false;
    if (query) {
      for (const row of rows) {
        if (!textOf(row).includes(query)) continue;
        count += 1;
        // Ancestors match too, so that the position of the row is visible.
        for (let at = row; at && !at.matches; at = at.parent) at.matches = true;
      }
    }
    byId("found").textContent = query ? count + (count === 1 ? " match" : " matches") : "";
    render();
  };

  tree.addEventListener("click", (event) => {
    const head = event.target.closest(".head");
    const element = head && head.parentElement;
    if (!element || !element.dataset.row) return;
    const row = rows[Number(element.dataset.row)];
    choose(row, true);
    if (event.target.closest(".fold") && row.hasChildren) setFold(row, !row.unfolded);
    else showDetails(row, !row.hasDetails);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const box = byId("search");
    if (event.target === box) {
      if (event.key === "Escape") { box.value = ""; search(); choose(current, true); }
      else if (event.key === "Enter" || event.key === "ArrowDown") choose(current, true);
      else return;
      event.preventDefault();
      return;
    }
    if (event.target.closest && event.target.closest("header, .details")) return;
    const shown = () => rows.filter(isShown);
    const move = (by, kind) => {
      const all = shown().filter((row) => !kind || row.kind === kind || row === current);
      choose(all[Math.max(0, Math.min(all.length - 1, all.indexOf(current) + by))], true);
    };
    switch (event.key) {
      case "ArrowDown": case "j": move(1); break;
      case "ArrowUp": case "k": move(-1); break;
      case "n": move(1, "turn"); break;
      case "p": move(-1, "turn"); break;
      case "Home": choose(shown()[0], true); break;
      case "End": choose(shown().at(-1), true); break;
      case "Enter": case " ": showDetails(current, !current.hasDetails); break;
      case "ArrowRight": if (current.hasChildren && !current.unfolded) setFold(current, true); else showDetails(current, true); break;
      case "ArrowLeft":
        if (current.hasDetails) showDetails(current, false);
        else if (current.hasChildren && current.unfolded) setFold(current, false);
        else if (current.parent) choose(current.parent, true);
        break;
      case "/": box.focus(); box.select(); break;
      case "Escape": if (query) { box.value = ""; search(); } break;
      default: return;
    }
    event.preventDefault();
  });
  let typed;
  byId("search").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(search, rows.length > 2000 ? 120 : 0); });
  const setAll = (unfolded) => { for (const row of rows) row.unfolded = unfolded; render(); };
  byId("unfold").addEventListener("click", () => setAll(true));
  byId("fold").addEventListener("click", () => setAll(false));
  byId("keys").addEventListener("click", () => {
    byId("help").hidden = !byId("help").hidden;
    byId("keys").setAttribute("aria-expanded", String(!byId("help").hidden));
  });

  // The head of the page.
  const sum = { prompt_tokens: 0, completion_tokens: 0, unpriced_calls: 0 };
  let whole = 0;
  for (const turn of data.turns) {
    for (const [key, value] of Object.entries(turn.usage)) if (typeof value === "number") sum[key] = (sum[key] || 0) + value;
    whole += Date.parse(turn.end) - Date.parse(turn.at);
  }
  byId("title").textContent = data.title || "Session";
  document.title = "Trace: " + (data.title || data.session_id);
  const one = (count, noun) => number(count) + " " + noun + (count === 1 ? "" : "s");
  byId("facts").textContent = [data.session_id, one(data.turns.length, "turn"), span(whole), tokens(sum) + " tokens", money(sum)].filter(Boolean).join(" · ");
  render();
})();
