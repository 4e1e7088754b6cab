"use strict";
// The page of a group: verdict, what it means, what to do; partitions; lag and members over time; rebalances.

const drawGroup = (group, now) => put($("view"), back(), ...groupParts(group, now, onPaper ? PAPER : Math.max(280, Math.min(1300, $("main").clientWidth))));

const PAPER = 700;  // the width of plots on paper

const groupParts = (group, now, width) => {
  const from = axisOf(group, now);
  const parts = [el("h2", {id: "name"}, folded(group.id), " ", badge(group)),
    el("div", {class: `verdict ${look(group)}`}, el("p", {class: "why"}, group.why),
      el("p", null, el("b", null, "It means: "), group.means, "."), el("p", null, el("b", null, "What to do: "), group.do, "."))];
  const known = group.events.filter(each => each.count > 1 || each.last[0].text !== group.why);
  parts.push(...known.filter(each => each.goes_on).map(each => happened(each, now)));
  if (group.waiting) parts.push(el("p", null, el("b", {class: "warn"}, `rebalancing for ${span(now - group.waiting.began_ms)}`),
    group.waiting.waits_for.length ? ` waits for ${group.waiting.waits_for.slice(0, 10).join(", ")}` : ""));
  if (group.commands.length) parts.push(el("details", {"data-fold": "commands", open: group.urgent}, el("summary", {"data-key": "commands"}, "Commands to copy"),
    el("ul", {class: "items commands"}, group.commands.map(copied))));
  if (group.partitions.length) parts.push(heading("Partitions", group.partitions, group.partitions_count), places(group, now));
  if (group.window.length) parts.push(el("h3", null, "Share window"), shareWindow(group, now));
  if (group.rewinds.length) parts.push(el("h3", null, "Commits that went back"), wentBack(group.rewinds, now));
  if (group.expiries.length) parts.push(el("h3", null, "Offsets that expire"), ...group.expiries.map(each => expires(each, now)));
  if (group.points.length) parts.push(el("h3", null, "Lag of all partitions"), lagPlot(group, from, now, width), curveNames(group.curves));
  if (group.lives.length) parts.push(el("h3", null, "Members and rebalances"), timeline(group, from, now, width),
    el("p", {class: "ends soft small"}, el("span", null, clock(from, now)), el("span", null, "now")), legend(group),
    el("details", {"data-fold": "members"}, el("summary", {"data-key": "members"}, plural(group.lives_count, "member")), members(group, now)));
  if (group.deadlines.length) parts.push(el("h3", null, "Deadlines"), el("ul", {class: "items"}, group.deadlines.slice(0, 12).map(each =>
    el("li", null, el("b", null, each.who), ` ${each.what} `, el("span", {class: "soft"}), el("div", {class: "bar", "data-at": each.at_ms, "data-lasts": each.lasts_ms, "aria-hidden": "true"}, el("i"))))));
  const over = known.filter(each => !each.goes_on);
  if (over.length) parts.push(el("h3", null, "Earlier events"), ...over.map(each => happened(each, now)));
  parts.push(el("h3", null, "Rebalances by cause, latest first"), group.rebalances.length ? el("div", {id: "rebalances"}, causes(group.rebalances, now))
    : el("p", {class: "soft"}, "None is known."));
  return parts;
};

const heading = (name, rows, total) => el("h3", null, total > rows.length ? `${name}, the worst ${rows.length} of ${count(total)}` : name);

// What is before the start offset is done. What is acquired at present is in no log: a coordinatord shows it of its own groups.
const shareWindow = (group, now) => {
  const known = group.window.some(row => row.acquired != null) ? cells => cells : cells => cells.filter((_cell, at) => at !== 2);
  const head = [{name: "partition"}, {name: "start offset", n: 1}, {name: "acquired", n: 1}, {name: "done", n: 1}, {name: "archived", n: 1},
    {name: "redelivered", n: 1}, {name: "near the delivery limit", n: 1}, {name: "most deliveries", n: 1}, {name: "last change", n: 1}];
  const cells = row => [[link("topic", row.topic), `-${row.partition}`], row.start_offset == null ? "not begun" : count(row.start_offset),
    count(row.acquired), count(row.done), count(row.archived), count(row.redelivered),
    row.suspected ? [el("span", {class: "badge bad"}, count(row.suspected)), ` from offset ${count(row.suspected_at)}`] : "0",
    row.at_offset == null ? "–" : `${count(row.most_deliveries)} at offset ${count(row.at_offset)}`, row.changed_ms == null ? "?" : ago(row.changed_ms, now)];
  return [table("window", "Share window", known(head), group.window.map(row => known(cells(row)))),
    group.redelivered == null ? null : el("p", {class: "soft small"}, `${plural(group.redelivered, "record")} delivered again, ${plural(group.archived, "record")} archived, since the watcher started`)];
};

// A line that opens to what it counts.
const line = (key, head, more) => el("details", {"data-fold": key}, el("summary", {"data-key": key}, head), el("ul", {class: "items"}, more.map(each => el("li", null, each))));

const happened = (event, now) => line(`event ${event.kind}`, [el("span", {class: event.goes_on ? "badge bad" : "badge"}, event.kind),
  el("span", {class: "soft"}, ` ${event.count > 1 ? `${plural(event.count, "time")}, ` : ""}last ${ago(event.ended_ms, now)}`),
  el("p", null, event.last[0].text)],
  event.last.map(each => [el("p", null, each.text), el("p", {class: "soft small"}, `${clock(each.began_ms, now)} to ${clock(each.ended_ms, now)}${each.goes_on ? ", not over" : ""}`)]));

const wentBack = (rewinds, now) => {
  const sum = name => rewinds.reduce((total, each) => total + each[name], 0);
  return line("rewinds", [el("strong", null, plural(sum("steps"), "time")), ` in ${plural(rewinds.length, "partition")}, by ${plural(sum("records"), "record")} together, which were read again`],
    rewinds.map(each => [link("topic", each.topic), `-${each.partition}: ${plural(each.steps, "time")}, by ${plural(each.records, "record")}`,
      each.time_ms == null ? "" : `; the last time from ${count(each.before)} to ${count(each.offset)}, ${ago(each.time_ms, now)}`]));
};

const COUNTED = {empty: "since the last member went", simple: "since the commit of a consumer without a group", explicit: "as the client asked with its commit",
  "not subscribed": "since the commit: no member reads the topic"};
const expires = (each, now) => line(`expiry ${each.expires_ms} ${each.counts_from}`, [el("strong", null, plural(each.count, "partition")),
  ` ${each.expires_ms > now ? `in ${span(each.expires_ms - now)}` : "due"}`, el("span", {class: "soft"}, `, ${clock(each.expires_ms, now)}; counted ${COUNTED[each.counts_from] || each.counts_from}`)],
  each.count > each.partitions.length ? [...each.partitions, `and ${count(each.count - each.partitions.length)} more`] : each.partitions);

const copied = ({what, command}) => {
  const done = el("span", {class: "soft", role: "status"});
  const copy = button("Copy", () => {
    getSelection().selectAllChildren(text);
    // An address without TLS has no clipboard: then the text is selected.
    if (navigator.clipboard) navigator.clipboard.writeText(command).then(() => { done.textContent = "copied"; }, () => {});
    else done.textContent = "selected";
  }, {"aria-label": `Copy: ${what}`, "data-key": `copy ${what}`});
  const text = el("code", null, command.split(" ").map((word, at) => [at ? " " : "", el("span", {class: "word"}, word)]));
  return el("li", null, el("span", {class: "soft"}, what, " ", copy, " ", done), el("pre", {tabindex: 0, "aria-label": what}, text));
};

const places = (group, now) => table("places", "Partitions", [{name: "partition"}, {name: "status"}, {name: "owner"}, {name: group.type === "share" ? "start offset" : "committed", n: 1},
  {name: "end", n: 1}, {name: "lag", n: 1}, {name: "time lag", n: 1}, {name: "in", n: 1}, {name: "out", n: 1}, {name: "empty in", n: 1},
  {name: "lost", n: 1}, {name: "deleted in", n: 1}, {name: "commit", n: 1}],
  group.partitions.map(row => [[link("topic", row.topic), `-${row.partition}`], el("span", {title: row.why}, badge(row)),
    row.owner ? [link("client", row.owner.client), row.owner.host ? [" on ", link("client", row.owner.host)] : null] : el("span", {class: "soft"}, group.type === "share" ? "shared" : "no member"),
    row.committed_offset == null ? "–" : count(row.committed_offset), count(row.end_offset), count(row.lag),
    bounded(row.time_lag_ms, BOUNDS[row.time_lag_method]), rate(row.produced_per_s), rate(row.consumed_per_s),
    row.lag ? row.zero_in_s == null ? "never" : span(row.zero_in_s * 1000) : "–", row.lost_records ? count(row.lost_records) : "–",
    row.retention_left_ms == null ? "–" : span(row.retention_left_ms), ago(row.committed_ms, now)]));

const members = (group, now) => table("lives", "Members", [{name: "member"}, {name: "host"}, {name: "since"}, {name: "until"}, {name: "partitions", n: 1}, {name: "last commit", n: 1}],
  group.lives.map(life => [link("client", life.instance || life.client_id, nameOf(life)), life.host ? link("client", life.host.replace(/^\//, "")) : "?",
    clock(life.since_ms, now), life.until_ms == null ? "there" : `${ending(life)[0]} ${clock(life.until_ms, now)}`,
    life.host ? count(life.partitions) : "?", life.host ? ago(life.last_commit_ms, now) : "?"]));

// Rebalances with the same trigger and client are one line with a count, which opens.
const causes = (rebalances, now) => {
  const found = new Map();
  for (const each of rebalances) {
    const key = JSON.stringify([each.trigger, each.trigger_client_id]);
    found.set(key, [...(found.get(key) || []), each]);
  }
  return [...found].map(([key, alike]) => el("details", {"data-fold": `cause ${key}`, css: {"border-left": `.3rem solid ${shared.triggers[alike[0].trigger] || shared.grey}`}},
    el("summary", {"data-key": `cause ${key}`}, el("b", null, alike[0].trigger || "cause unknown"), alike[0].trigger_client_id ? `: ${alike[0].trigger_client_id}` : "",
      el("span", {class: "soft"}, ` ${alike.length > 1 ? `${alike.length} times, the last ` : ""}${ago(alike[0].ended_ms ?? alike[0].began_ms, now)}`),
      el("p", null, alike[0].cause)),
    el("ul", {class: "items"}, alike.slice(0, 30).map(each => rebalance(each, now)))));
};

const rebalance = (each, now) => {
  const sure = each.how === "observed" ? "observed" : each.confidence == null ? "" : `inferred, ${Math.round(100 * each.confidence)} % sure`;
  const took = each.began_ms != null && each.ended_ms != null ? `, took ${span(each.ended_ms - each.began_ms)}` : "";
  const moved = each.partitions_moved == null ? "" : `, ${plural(each.partitions_moved, "partition")} moved`;
  return el("li", null, el("p", null, each.cause, each.client_reason ? ` (the client says: ${each.client_reason})` : "", " ", el("span", {class: "soft"}, sure)),
    el("p", {class: "soft small"}, `${clock(each.ended_ms ?? each.began_ms, now)}, ${each.outcome}${took}; ${plural(each.members, "member")} (+${each.added ?? "?"} −${each.removed ?? "?"})${moved}; generation ${each.generation_before ?? "?"} → ${each.generation}`));
};
