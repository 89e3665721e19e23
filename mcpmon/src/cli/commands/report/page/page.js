"use strict";
// Everything below comes from servers and models: it becomes text nodes, never markup.
const report = JSON.parse(document.getElementById("report").textContent);
const root = document.querySelector("main");

/** An element with these attributes and children; a string among them is text. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Characters that nobody sees, that look like a space, or that move others about; a line break, a tab and a space are seen. */
const HIDDEN = /(?![\n\t ])[\p{Cc}\p{Cf}\p{Z}\p{Co}\p{Cn}\p{Cs}\p{DI}\u2800]/gu;

/** The text with each hidden character shown by its code point. */
function visible(text) {
  const shown = document.createDocumentFragment();
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    shown.append(text.slice(end, found.index));
    const code = "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    shown.append(element("mark", { title: "a character that is not seen" }, code));
    end = found.index + found[0].length;
  }
  shown.append(text.slice(end));
  return shown;
}

const text = (value) => element("span", { class: "text" }, visible(String(value)));
/** A verdict or severity: its word says it, its colour repeats it. */
const word = (value) => element("span", { class: value }, value.replace("_", " "));
const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

/** `2026-11-20T12:00:00.123456789Z` as a day and as a time of day, UTC. */
const day = (time) => time.slice(0, 10);
const clock = (time) => time.slice(11, 23).padEnd(12, "0");
const moment = (time) => `${day(time)} ${clock(time)}`;
const timeCell = (time) => element("span", { class: "time" }, time ? moment(time) : "not known");

function section(title, ...content) {
  const id = title.toLowerCase().replaceAll(" ", "-");
  root.append(element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...content));
}

function table(headers, rows, empty = "None.") {
  if (rows.length === 0) return element("p", {}, empty);
  // The roles stay where a narrow window sets each cell in a line of its own, behind the name of its column.
  const row = (cells) => element("tr", { role: "row" }, ...cells);
  const names = headers.map((name) => element("th", { scope: "col", role: "columnheader" }, name));
  const cells = (values) => values.map((value, at) => element("td", { role: "cell", "data-name": headers[at] }, value));
  const head = element("thead", { role: "rowgroup" }, row(names));
  const body = element("tbody", { role: "rowgroup" }, ...rows.map((values) => row(cells(values))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `table: ${headers.join(", ")}` },
    element("table", { role: "table" }, head, body));
}

/** The number of entries that a list leaves out; none where it leaves out nothing. */
const left = (list, all) => (all > list.length ? [element("p", { class: "faint" }, `and ${all - list.length} more: the store has them`)] : []);

function overview() {
  const calls = Object.values(report.calls).reduce((sum, calls) => sum + calls, 0);
  const findings = Object.values(report.detections_by_severity).reduce((sum, found) => sum + found, 0);
  const { percent, seen, wrapped } = report.coverage;
  const coverage = `${percent === null ? "not known" : `${percent} %`} (${wrapped} of ${seen} seen)`;
  const numbers = [
    ["servers", report.servers_connected.length],
    ["tools seen", report.tools_seen_count],
    ["calls", calls],
    ["blocked", report.blocked_count],
    ["findings", findings],
    ["tools changed", report.tools_changed_count],
    ["launches wrapped", coverage],
  ];
  const boxes = numbers.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value))));
  const times = [report.started, report.ended].map((time) => (time ? moment(time) : "not known"));
  root.append(
    element("header", {},
      element("h1", {}, "Session ", text(report.session_id)),
      element("p", { class: "faint" }, "Agent: ", text(report.agent ?? "not known"), ` · from ${times[0]} to ${times[1]} UTC`),
      element("dl", { class: "numbers" }, ...boxes)),
  );
  const cut = "The session has too many events: only the newest are in this report.";
  if (report.truncated) root.append(element("p", { class: "high" }, cut));
}

function unseen() {
  const gaps = report.not_enforced;
  section("What was not enforced or not seen",
    table(["time (UTC)", "what"], gaps.map((gap) => [timeCell(gap.timestamp), text(gap.what)])),
    ...left(gaps, report.not_enforced_count));
}

const use = (entry) => [timeCell(entry.timestamp), text(entry.server_id), text(entry.what), text(entry.rule), text(entry.reason)];
const USES = ["time (UTC)", "server", "what", "rule", "reason and remedy"];

/** The words of a text with what is between them. */
const pieces = (value) => value.match(/\s+|[^\s\p{L}\p{N}_]|[\p{L}\p{N}_]+/gu) ?? [];

/** Steps that all comparisons of the page together may take: a server chooses how many there are. */
let steps = 30_000_000;

/** The common parts of two texts and those of one of them, by the longest common subsequence of their words. */
function difference(previous, now) {
  const [a, b] = [pieces(previous), pieces(now)];
  steps -= a.length * b.length;
  if (steps < 0) return [element("del", {}, visible(previous)), " ", element("ins", {}, visible(now))];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const parts = [];
  const put = (kind, piece) => {
    if (parts.at(-1)?.kind === kind) parts.at(-1).text += piece;
    else parts.push({ kind, text: piece });
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { put("same", a[i]); i++; j++; }
    else if (j === b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) { put("del", a[i]); i++; }
    else { put("ins", b[j]); j++; }
  }
  return parts.map((part) => (part.kind === "same" ? visible(part.text) : element(part.kind, {}, visible(part.text))));
}

function changes() {
  const all = report.tool_changes.map((change) => {
    const name = change.renamed_from === null ? [] : [" (was ", text(change.renamed_from), ")"];
    const fields = change.fields.map((field) => element("div", { class: "diff" },
      element("p", { class: "faint" }, text(field.field)),
      element("div", { class: "text" }, ...difference(field.previous, field.new))));
    const gone = change.listed ? [] : [element("p", {}, "The server no longer lists it.")];
    return element("article", {},
      element("h3", {}, text(change.server_id), " · ", text(change.tool_name), ...name, " at ", moment(change.timestamp)),
      ...gone, ...fields);
  });
  section("Tools that changed", ...(all.length ? all : [element("p", {}, "None.")]), ...left(all, report.tool_changes_count));
}

/** The kinds of entries, as the field calls them. */
const KINDS = {
  mcp_tool_call_intercepted: "call judged", mcp_tool_called: "call", mcp_tool_returned: "result", mcp_detection: "finding",
  mcp_network_connection: "connection", mcp_server_started: "server start", mcp_server_exited: "server end",
  mcp_tool_changed: "tool change", mcp_tool_seen: "tool seen", mcp_output_inspection: "result read",
};
const named = (type) => (Object.hasOwn(KINDS, type) ? KINDS[type] : type.replace(/^mcp_/, "").replaceAll("_", " "));
const kindOf = (entry) =>
  entry.layer === "llm" && entry.type === "mcp_tool_call_intercepted" ? "intent" : named(entry.type);

function entryOf(entry, isJoined) {
  const server = entry.server_id === null ? [] : [text(entry.server_id), " "];
  const fields = [
    ["time (UTC)", moment(entry.timestamp)], ["seen by", entry.layer], ["severity", entry.severity === null ? null : word(entry.severity)], ["rule", entry.rule],
    ["reason", entry.reason], ["remedy", entry.remedy], ["arguments", entry.input], ["call", entry.call === null ? null : String(entry.call)], ["event", entry.id],
  ].filter(([, value]) => value !== null);
  const rows = fields.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, typeof value === "string" ? text(value) : value)]);
  const line = element("summary", {}, element("span", {}, clock(entry.timestamp)), element("span", {}, (isJoined ? "→ " : "") + kindOf(entry)),
    word(entry.action), element("span", { class: "what" }, ...server, text(entry.what)));
  return element("li", isJoined ? { class: "joined" } : {}, element("details", {}, line, element("dl", { class: "entry" }, ...rows)));
}

/** Entries in the order of time; those of one call stand below its first. */
function inCalls(entries) {
  const calls = new Map();
  const order = [];
  for (const entry of entries) {
    const known = entry.call === null ? undefined : calls.get(entry.call);
    if (known) { known.push(entry); continue; }
    const group = [entry];
    if (entry.call !== null) calls.set(entry.call, group);
    order.push(group);
  }
  return order;
}

function timeline() {
  const list = element("ol", { class: "timeline" });
  const number = element("p", { class: "faint", role: "status" });
  const words = element("input", { type: "search", id: "words", autocomplete: "off" });
  const verdict = element("select", { id: "verdict" }, ...["all", "block", "would_block", "would_ask", "audit", "allow"].map((value) =>
    element("option", { value }, value.replace("_", " "))));
  const draw = () => {
    const wanted = words.value.toLowerCase();
    const isShown = (entry) => (verdict.value === "all" || entry.action === verdict.value) &&
      JSON.stringify(entry).toLowerCase().includes(wanted);
    const groups = inCalls(report.timeline.filter(isShown));
    list.replaceChildren(...groups.flatMap((group) => group.map((entry, place) => entryOf(entry, place > 0))));
    number.textContent = `${count(list.children.length, "entry", "entries")} of ${report.timeline.length}`;
  };
  words.addEventListener("input", draw);
  verdict.addEventListener("input", draw);
  const form = element("form", {}, element("label", {}, "Words", words), element("label", {}, "Verdict", verdict));
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
  section("Timeline", form, number, list, ...left(report.timeline, report.timeline_count));
}

function connections() {
  const rows = (report.connections ?? []).map((connection) => [text(connection.remote), word(connection.action), String(connection.count)]);
  const empty = report.connections === null ? "Not recorded: only the daemon sees connections, and no trace of one is left." : "None.";
  section("Connections", table(["remote", "verdict", "count"], rows, empty), ...left(rows, report.connections_count));
}

/** The tools of a server, each a text of its own: a name can have a comma in it. */
const toolsOf = (server) => element("ul", { class: "names" },
  ...report.tools_seen.filter((tool) => tool.server_id === server).map((tool) => element("li", {}, text(tool.tool_name))));

const SEVERITIES = ["critical", "high", "medium", "low", "info"];

overview();
unseen();
section("Blocked", table(USES, report.blocked.map(use)), ...left(report.blocked, report.blocked_count));
if (report.would_block_count > 0)
  section("Would have been blocked", table(USES, report.would_block.map(use)), ...left(report.would_block, report.would_block_count));
section("Findings",
  table(["severity", "count"], SEVERITIES.filter((severity) => Object.hasOwn(report.detections_by_severity, severity)).map((severity) =>
    [word(severity), String(report.detections_by_severity[severity])])),
  ...(report.top_detections.length ? [table(["severity", "server", "tool", "pattern", "count"], report.top_detections.map((found) =>
    [word(found.severity), text(found.server_id), text(found.tool_name), text(found.pattern), String(found.count)]))] : []),
  ...left(report.top_detections, report.top_detections_count));
section("Calls", table(["verdict", "count"], Object.entries(report.calls).map(([verdict, calls]) => [word(verdict), String(calls)])));
changes();
timeline();
connections();
section("Servers", table(["server", "tools seen"], report.servers_connected.map((server) => [text(server), toolsOf(server)])),
  ...left(report.tools_seen, report.tools_seen_count));
// Entries that are folded on a screen are read on paper.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => (details.open = true)));
