"use strict";
// Routes, and the data: the overview is kept and only its changes are fetched; other pages are fetched while shown.

const state = {rows: new Map(), incidents: [], cursor: "", left_out: 0, head: null};
let detail = null, paused = false, skew = 0, timer = null, asked = 0, spoken = "";

const route = () => {
  const [way, query] = location.hash.replace(/^#/, "").split("?"), [, kind, ...name] = way.split("/");
  let named = name.join("/");
  try { named = decodeURIComponent(named); } catch { /* a name that is not encoded is taken as it is */ }
  return {kind: ["group", "topic", "client"].includes(kind) ? kind : "", name: named, query: new URLSearchParams(query || "")};
};
// A report has its data inside, and its time stands still.
const embedded = $("data") ? JSON.parse($("data").textContent) : null;
const now = () => embedded ? embedded.now_ms : Date.now() - skew;

const change = values => {
  const query = route().query;
  for (const [key, value] of Object.entries(values)) value ? query.set(key, value) : query.delete(key);
  history.replaceState(null, "", "#/" + (String(query) ? `?${query}` : ""));
  draw();
};

const draw = () => {
  const {kind, name} = route();
  if (!state.head) return;
  if ($("more")) $("more").hidden = !!kind;
  if (embedded && kind) detail = {kind, name, found: Object.hasOwn(embedded[kind], name) ? embedded[kind][name] : null};
  if (!kind) drawOverview(state, now(), change);
  else if (detail && detail.kind === kind && detail.name === name) {
    if (!detail.found) put($("view"), back(), el("h2", {id: "name"}, folded(name)), el("p", null, embedded ? "This report does not have it in full." : `This ${kind === "client" ? "client or host" : kind} is not there (any more).`),
      embedded && kind === "group" ? el("p", null, "To get it: ", el("code", null, "coordinatord pipeline report --group NAME")) : null);
    else ({group: drawGroup, topic: drawTopic, client: drawClient})[kind](detail.found, now());
  } else put($("view"), back(), el("p", {class: "soft"}, "loading …"));
  tick();
};

const fetchJson = async (name, query) => {
  const answer = await fetch(`${name}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error(`${name}: HTTP status ${answer.status}`);
  return answer.json();
};

const poll = async () => {
  clearTimeout(timer);
  if (paused || embedded) return;
  const mine = ++asked, {kind, name} = route();
  let pause = 5000;
  try {
    const known = detail && detail.kind === kind && detail.name === name ? detail : null;
    const told = kind ? await fetchJson(kind, {name, tag: known ? known.tag : ""}) : await fetchJson("overview", {since: state.cursor});
    if (mine !== asked) return;  // the page was left meanwhile
    skew = Date.now() - told.now_ms;
    state.head = told;
    pause = told.pause_ms;
    if (!kind) take(told);
    else if (!told.same) detail = {kind, name, tag: told.tag, found: told.found};
    trouble(told.trouble && `The cluster cannot be read: ${told.trouble}. What follows is from ${clock(told.at_ms, now())}.`);
    draw();
  } catch (error) {
    if (mine !== asked) return;
    trouble(`This page's server does not answer (${error.message}).`);
  }
  timer = setTimeout(poll, pause);
};

const take = told => {
  if (told.whole) state.rows.clear();
  for (const row of told.rows) state.rows.set(row.id, row);
  for (const id of told.gone) state.rows.delete(id);
  state.incidents = told.incidents;
  state.cursor = told.next;
  state.left_out = told.left_out;
  const said = `${plural(state.rows.size, "group")}, ${[...state.rows.values()].filter(row => row.urgent).length} need attention`;
  if (said !== spoken) $("said").textContent = spoken = said;
};

const trouble = text => {
  $("trouble").hidden = !text;
  if (text && $("trouble").textContent !== clean(text)) $("trouble").textContent = clean(text);
};

const tick = () => {
  const head = state.head;
  if (!head) return;
  $("cluster").textContent = clean(head.cluster);
  const age = now() - head.at_ms;
  $("moment").textContent = !head.at_ms ? "no data yet" : `state at ${clock(head.at_ms, embedded ? 0 : now())}, ${embedded ? "from the offsets log" : age < 10000 ? "live" : span(age) + " old"}${paused ? ", paused" : ""}`;
  for (const bar of document.querySelectorAll("[data-at]")) {
    const left = bar.dataset.at - now(), share = Math.min(1, Math.max(0, left / bar.dataset.lasts));
    bar.querySelector("i").style.width = `${100 * share}%`;
    bar.classList.toggle("late", share < .25);
    bar.previousElementSibling.textContent = left > 0 ? `in ${span(left)}` : "due";
  }
};

// The place in the overview to which a return leads.
const title = document.title;
let overviewAt = 0, before = route().kind;
addEventListener("hashchange", () => {
  const kind = route().kind;
  document.title = kind ? `${clean(route().name)} · consumer groups` : title;
  draw();
  scrollTo(0, kind ? 0 : overviewAt);
  drawRows(now(), change);
  if (kind !== before || kind) $("main").focus({preventScroll: true});
  before = kind;
  poll();
});
addEventListener("scroll", () => { if (!route().kind) { overviewAt = scrollY; drawRows(now(), change); } }, {passive: true});
addEventListener("resize", () => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Continue" : "Pause";
  paused ? clearTimeout(timer) : poll();
  tick();
});
addEventListener("visibilitychange", () => { document.hidden ? clearTimeout(timer) : poll(); });
// On paper everything is open; a report has its groups in full below the list of all.
addEventListener("beforeprint", () => {
  onPaper = document.documentElement.dataset.paper = true;
  draw();
  if (embedded && !route().kind) {
    const paper = el("div", {id: "paper"}, Object.values(embedded.group).map(group => el("section", null, groupParts(group, now(), PAPER))));
    for (const each of paper.querySelectorAll("[id]")) each.removeAttribute("id");
    $("main").append(paper);
  }
  for (const each of document.querySelectorAll("details:not([open])")) each.open = each.dataset.closed = true;
});
addEventListener("afterprint", () => {
  onPaper = false;
  delete document.documentElement.dataset.paper;
  if ($("paper")) $("paper").remove();
  for (const each of document.querySelectorAll("[data-closed]")) each.open = false;
  draw();
});
if (embedded) {
  $("pause").hidden = true;
  state.head = embedded;
  take(embedded);
  draw();
} else {
  setInterval(tick, 500);
  poll();
}
