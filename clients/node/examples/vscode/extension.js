// A VS Code extension of one file: asks agentd about the selection, streams the answer into an output channel, or
// replaces the selection with it. The model sees buffers as they are in the editor, including unsaved changes.

const vscode = require("vscode");

let client;
let channel;

exports.activate = async (context) => {
  // The package is an ES module, but extensions are CommonJS.
  const { Client } = await import("agentd-client");
  client = new Client({ name: "vscode" });
  channel = vscode.window.createOutputChannel("agentd", "markdown");
  context.subscriptions.push(
    channel,
    { dispose: () => client.close() },
    vscode.commands.registerCommand("agentd.ask", () => command(ask)),
    vscode.commands.registerCommand("agentd.rewrite", () => command(rewrite)),
  );
};

async function command(run) {
  const editor = vscode.window.activeTextEditor;
  const prompt = editor && (await vscode.window.showInputBox({ prompt: "What should be done with the selection?" }));
  if (!prompt) return;
  try {
    await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: "agentd", cancellable: true },
      (progress, token) => run(editor, prompt, progress, token),
    );
  } catch (error) {
    await vscode.window.showErrorMessage(error.hint ? `${error.message} (${error.hint})` : error.message);
  }
}

async function ask(editor, prompt, progress, token) {
  channel.show(true);
  channel.append(`\n> ${prompt}\n\n`);
  await answered(editor, prompt, progress, token, (text) => channel.append(text));
  channel.append("\n");
}

async function rewrite(editor, prompt, progress, token) {
  const { selection } = editor;
  const request = `${prompt}\n\nAnswer only with the text that replaces the selection.`;
  const result = await answered(editor, request, progress, token, () => {});
  if (result.stopReason === "STOP_REASON_COMPLETED") await editor.edit((edit) => edit.replace(selection, result.text));
}

/** Runs a turn about the selection; `show` receives the answer in pieces. */
async function answered(editor, prompt, progress, token, show) {
  const { document, selection } = editor;
  const turn = await client.turn(prompt, {
    project: vscode.workspace.getWorkspaceFolder(document.uri)?.uri.fsPath,
    parts: [
      {
        selection: {
          uri: document.uri.toString(),
          lines: { first: selection.start.line + 1, last: selection.end.line + 1 },
          text: document.getText(selection.isEmpty ? undefined : selection),
        },
      },
    ],
    tools: [buffers],
  });
  const cancelled = token.onCancellationRequested(() => turn.cancel().catch(() => {}));
  try {
    for await (const event of turn) {
      if (event.type === "text") show(event.text);
      else if (event.type === "toolCall") progress.report({ message: event.name });
      else if (event.type === "approval") await decide(event);
      else if (event.type === "question") await reply(event);
    }
  } finally {
    cancelled.dispose();
  }
  if (turn.outcome.error) await vscode.window.showErrorMessage(turn.outcome.error.message);
  return turn.outcome;
}

const buffers = {
  name: "buffer",
  description: "Reads a file as it is in the editor, with changes that are not saved. Without a path, lists what is open.",
  parameters: { type: "object", properties: { path: { type: "string" } } },
  run({ path }) {
    const open = vscode.workspace.textDocuments.filter((document) => !document.isClosed);
    if (!path) return open.map((document) => document.uri.fsPath + (document.isDirty ? " (not saved)" : "")).join("\n");
    const found = open.find((document) => document.uri.fsPath.endsWith(path.replace(/^\/project/, "")));
    if (!found) throw new Error(`${path} is not open in the editor`);
    return found.getText();
  },
};

async function decide(approval) {
  const preview = visible(approval.preview);
  channel.append(`\n${approval.tool}:\n${preview}\n`);
  const detail = preview.length > 2000 ? "The output channel shows the call." : preview;
  const choice = await vscode.window.showWarningMessage(`Run ${approval.tool}?`, { modal: true, detail }, "Run", "Always");
  if (choice === "Run") await approval.approve();
  else if (choice === "Always") await approval.always();
  else await approval.reject("rejected in the editor");
}

/** Escapes control and invisible characters, because the user decides by this text. */
function visible(text) {
  return text.replace(/[^\P{C}\n\t]/gu, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

async function reply(question) {
  const { choices } = question;
  const text = choices.length
    ? await vscode.window.showQuickPick(choices, { title: question.question })
    : await vscode.window.showInputBox({ prompt: question.question });
  if (text === undefined) await question.reject();
  else await question.answer(text);
}
