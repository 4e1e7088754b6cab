"use strict";
// The overview: tiles that filter, a search, incidents, and a list of which only the visible rows are elements.

const CALM = new Set(["ok", "ended", "unsubscribed", "no offsets"]);
const COLUMNS = [["group", row => row.id], ["status", row => row.order], ["reason", null], ["lag", row => -(row.lag ?? -1)],
  ["time lag", row => -(row.time_lag_ms ?? -1)], ["members", row => -(row.members ?? -1)],
  ["last commit", row => -(row.last_commit_ms ?? 0)], ["last hour", null]];
const shownIncidents = new Set(), shownFolds = new Set();
let items = [], drawnFrom = -1, drawnUntil = -1, onPaper = false;  // on paper all rows are shown, and all folds are open

const matches = (row, words) => {
  const told = [row.id, row.status, row.why, ...row.topics, ...row.clients, ...row.hosts].join(" ").toLowerCase();
  return words.every(word => told.includes(word));
};
const byUrgency = (a, b) => a.order - b.order || (b.lag ?? 0) - (a.lag ?? 0) || (a.id < b.id ? -1 : 1);

// What the list has: rows, incidents that open to rows, and folds of those that are well.
const arranged = (rows, incidents, wanted) => {
  const words = (wanted.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean), status = wanted.get("status");
  const sort = COLUMNS.find(([name, key]) => key && name === wanted.get("sort"));
  let found = rows.filter(row => (!status || (status === "attention" ? row.urgent : row.status === status)) && matches(row, words));
  found.sort(byUrgency);
  if (sort) {
    const key = sort[1];
    found.sort((a, b) => key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
  }
  if (sort || status || words.length) return found.map(row => ({row}));
  const by = new Map(incidents.map(each => [each.id, {incident: each, rows: []}])), list = [], calm = new Map();
  for (const row of found) {
    const incident = by.get(row.incident);
    if (incident) {
      if (!incident.rows.length) list.push(incident);
      incident.rows.push(row);
    } else if (CALM.has(row.status)) calm.set(row.status, [...(calm.get(row.status) || []), row]);
    else list.push({row});
  }
  for (const [name, alike] of calm) list.push({fold: name, rows: alike});
  return list.flatMap(each => each.rows && (onPaper || each.incident && shownIncidents.has(each.incident.id) || shownFolds.has(each.fold))
    ? [each, ...each.rows.map(row => ({row, inner: true}))] : [each]);
};

const drawOverview = (state, now, change) => {
  const wanted = route().query, rows = [...state.rows.values()];
  if (!$("groups")) put($("view"), overviewFrame(change));
  if ($("q").value !== (wanted.get("q") || "")) $("q").value = wanted.get("q") || "";
  put($("tiles"), tiles(state, rows, wanted, change));
  $("sort").value = wanted.get("sort") || "";
  items = arranged(rows, state.incidents, wanted);
  const groups = items.reduce((sum, each) => sum + (each.row && !each.inner ? 1 : each.rows ? each.rows.length : 0), 0);
  $("found").textContent = plural(groups, "group");
  $("none").hidden = items.length > 0;
  $("none").textContent = rows.length ? "No group matches." : "No group has committed an offset yet.";
  drawnFrom = -1;
  drawRows(now, change);
};

const overviewFrame = change => {
  // At once: until the address has it, the next drawing puts back what the address has.
  const search = el("input", {id: "q", type: "search", autocomplete: "off", maxlength: 300, on: {input: () => change({q: $("q").value})}});
  const sort = el("select", {id: "sort", on: {change: () => change({sort: $("sort").value})}}, el("option", {value: ""}, "urgency"),
    COLUMNS.filter(([name, key]) => key && name !== "status").map(([name]) => el("option", {value: name}, name)));
  return [el("div", {class: "tiles", id: "tiles", role: "group", "aria-label": "Filter by status"}),
    el("div", {class: "form", role: "search"}, el("label", null, "Search groups, topics, clients, hosts", search),
      el("label", null, "Sort by", sort), el("span", {id: "found", class: "soft"})),
    el("table", {id: "groups", class: "list"}, el("caption", {class: "skip"}, "Consumer groups"),
      el("thead", null, el("tr", null, COLUMNS.map(([name], at) => el("th", {scope: "col", class: at > 2 && at < 7 ? "n" : null}, name)))),
      el("tbody")),
    el("p", {id: "none", class: "soft", hidden: true})];
};

const tiles = (state, rows, wanted, change) => {
  const counts = new Map();
  for (const row of rows) counts.set(row.status, [...(counts.get(row.status) || []), row]);
  const tile = (key, name, value, kind) => button([el("b", null, count(value)), name], () => change({status: wanted.get("status") === key ? "" : key}),
    {class: `tile ${kind || ""}`, "aria-pressed": String((wanted.get("status") || "") === key), "data-key": `tile ${key}`});
  const urgent = rows.filter(row => row.urgent).length;
  const told = [tile("", "all groups", rows.length), tile("attention", "need attention", urgent, urgent ? "bad" : "good")];
  for (const [status, alike] of [...counts].sort((a, b) => a[1][0].order - b[1][0].order))
    told.push(tile(status, status, alike.length, look(alike[0])));
  if (state.left_out) told.push(el("div", {class: "tile bad"}, el("b", null, count(state.left_out)), "left out, beyond the limits"));
  return told;
};

const rowHeight = () => matchMedia("(max-width: 45rem)").matches ? 148 : 52;

// The visible rows, and some before and after; the rest is the height of two empty rows.
const drawRows = (now, change) => {
  const list = $("groups");
  if (!list) return;
  const height = rowHeight(), top = list.tBodies[0].getBoundingClientRect().top;
  const from = onPaper ? 0 : Math.max(0, Math.min(items.length, Math.floor(-top / height) - 10)) & ~1;
  const until = onPaper ? items.length : Math.min(items.length, from + Math.ceil(innerHeight / height) + 24);
  if (from === drawnFrom && until === drawnUntil) return;
  [drawnFrom, drawnUntil] = [from, until];
  list.setAttribute("aria-rowcount", items.length + 1);
  const gap = size => size ? el("tr", {class: "gap", "aria-hidden": "true", css: {height: `${size * height}px`}}) : null;
  put(list.tBodies[0], gap(from), items.slice(from, until).map((item, at) => {
    const drawn = item.row ? groupRow(item, now) : foldRow(item, now, change);
    drawn.setAttribute("aria-rowindex", from + at + 2);
    return drawn;
  }), gap(items.length - until));
};

const cell = (name, text, kind) => el("td", {class: kind ?? "n", "data-name": name}, text);

const groupRow = ({row, inner}, now) => el("tr", {class: inner ? "inner" : null},
  el("th", {scope: "row"}, el("a", {href: path("group", row.id), "data-key": `group ${row.id}`, title: row.id}, folded(row.id))),
  el("td", null, badge(row), row.rebalancing ? el("span", {class: "soft"}, " · rebalancing") : null),
  el("td", {class: "t"}, el("span", {class: "clamp", title: row.why}, row.why)), cell("lag", count(row.lag)),
  cell("time lag", bounded(row.time_lag_ms, row.bound)), cell("members", count(row.members)),
  cell("last commit", ago(row.last_commit_ms, now)), el("td", {class: look(row)}, spark(row.trend)));

const foldRow = (item, now, change) => {
  const set = item.incident ? shownIncidents : shownFolds, key = item.incident ? item.incident.id : item.fold;
  const open = set.has(key), act = () => { open ? set.delete(key) : set.add(key); change({}); };
  const name = button(`${open ? "▾" : "▸"} ${plural(item.rows.length, "group")}`, act, {class: "fold", "aria-expanded": String(open), "data-key": `fold ${key}`});
  const lag = item.rows.reduce((sum, row) => sum + (row.lag ?? 0), 0);
  let why = "folded; nothing to do";
  if (item.incident) {
    const {since_ms: since, topic, status} = item.incident;
    why = `${since == null ? `all ${status}` : `one incident, ${ago(since, now)} (${clock(since, now)})`}${topic ? `; all read ${topic}` : ""}`;
  }
  return el("tr", {class: item.incident ? "incident" : "calm"}, el("th", {scope: "row"}, name), el("td", null, badge(item.rows[0])),
    el("td", {class: "t"}, el("span", {class: "clamp"}, why)), cell("lag", count(lag)), el("td", {class: "n"}), el("td", {class: "n"}), el("td", {class: "n"}), el("td"));
};
