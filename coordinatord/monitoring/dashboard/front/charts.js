"use strict";
// The sparkline of a row; and of a group, its lag and its members on the same axis, which ends now.

const AXIS = 64;  // pixels left of both, for the values of the lag
const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 360];  // between the labels of the axis, which have no seconds

const spark = levels => {
  if (!levels) return el("span", {class: "soft"}, "");
  const heights = [...levels].map(each => parseInt(each, 36)), step = 90 / Math.max(1, heights.length - 1);
  const points = heights.map((each, at) => `${(at * step).toFixed(1)},${(22 - each * 20 / 35).toFixed(1)}`).join(" ");
  const trend = heights.at(-1) - heights[0];
  const told = trend > 3 ? "lag has grown" : trend < -3 ? "lag has shrunk" : "lag is about the same";
  return el("svg:svg", {class: "spark", viewBox: "0 0 90 24", role: "img", "aria-label": `last hour: ${told}`},
    el("svg:polyline", {points, fill: "none", stroke: "currentColor", "stroke-width": 1.5}));
};

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What the axis of a group's plots begins with: an hour ago, or earlier members and rebalances, six hours at most.
const axisOf = (group, now) => {
  const times = [...group.lives.map(each => each.until_ms ?? each.since_ms), ...group.rebalances.map(each => each.began_ms ?? each.ended_ms),
    ...group.points.map(each => each[0])].filter(each => each != null && each <= now);
  return Math.max(Math.min(now - 10 * 60e3, ...times), now - 6 * 3600e3);
};

const lagPlot = ({points, curves}, from, now, width) => {
  const box = el("div", {class: "plot", role: "img", "aria-label":
    `unread records from ${clock(from, now)} to now: ${count(points[0][1])} first, ${count(points.at(-1)[1])} last, ${count(Math.max(...points.map(each => each[1])))} at most`});
  const grid = {stroke: css("--line"), width: 1}, ticks = {show: false}, ink = css("--soft");
  const font = "11px system-ui, sans-serif";
  new uPlot({
    width, height: 180, cursor: {y: false}, legend: {show: false}, padding: [8, 8, 0, 0],
    tzDate: seconds => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: {x: {range: () => [from / 1000, now / 1000]}, y: {range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)]}},
    axes: [{stroke: ink, grid, ticks, font, size: 30, incrs: MINUTES.map(each => each * 60), values: (_plot, times) => times.map(each => clock(each * 1000, each * 1000).slice(0, 5))}, {stroke: ink, grid, ticks, font, size: AXIS,
      values: (_plot, values) => values.map(each => Number.isInteger(each) ? each.toLocaleString("en", {notation: "compact"}) : "")}],
    series: [{}, {stroke: shared.lives[""][1], width: 2, fill: `${shared.lives[""][1]}22`, points: {show: points.length < 3}, spanGaps: true},
      ...curves.names.map((_name, at) => ({stroke: shared.curves[at], width: 1.5, points: {show: curves.times.length < 3}, spanGaps: true}))],
  }, uPlot.join([[points.map(each => each[0] / 1000), points.map(each => each[1])],
    ...curves.names.length ? [[curves.times.map(each => each / 1000), ...curves.lags]] : []]), box);
  return box;
};

// The names of the curves; there is none but that of all if one partition has all of the lag.
const curveNames = ({names, left_out: leftOut}) => !names.length ? null : el("p", {class: "legend"}, ["all partitions", ...names].map((name, at) =>
  el("span", null, el("i", {css: {background: at ? shared.curves[at - 1] : shared.lives[""][1]}}), folded(name))),
  leftOut ? el("span", null, `and ${plural(leftOut, "partition")} with less lag`) : null);

const nameOf = life => life.instance || life.client_id || life.member_id;
const ending = life => shared.lives[life.end || ""] || [life.end, shared.grey];

const timeline = (group, from, now, width) => {
  const rows = new Map(), row = 26, top = 8;  // a process that restarts stays in its row
  for (const life of group.lives.slice(0, 60)) {
    if (life.until_ms != null && life.until_ms < from) continue;
    const key = life.instance || JSON.stringify([life.client_id, life.host]);
    rows.set(key, [...(rows.get(key) || []), life]);
  }
  const height = top + row * Math.max(1, rows.size) + 4, wide = width - AXIS - 8;
  const x = ms => AXIS + wide * Math.max(0, Math.min(1, (ms - from) / Math.max(1, now - from)));
  const svg = el("svg:svg", {class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${plural(group.lives_count, "member")} since ${clock(from, now)}; the table below has each of them`});
  for (const each of group.rebalances) {
    const end = each.ended_ms ?? now, begin = each.began_ms ?? end;
    if (end < from) continue;
    const drawn = Math.max(3, x(end) - x(begin));
    svg.append(el("svg:rect", {class: "band", x: Math.min(x(begin), width - 8 - drawn), y: 0, width: drawn, height,
      fill: shared.triggers[each.trigger] || shared.grey, opacity: .4}, el("svg:title", null, `${each.trigger || "unknown"}: ${each.cause}`)));
  }
  [...rows.values()].forEach((same, number) => {
    const y = top + row * number, name = nameOf(same[0]), short = [...name].length > 40 ? [...name].slice(0, 39).join("") + "…" : name;
    for (const life of same) {
      const begin = x(Math.max(life.since_ms, from)), drawn = Math.max(3, x(life.until_ms ?? now) - begin);
      svg.append(el("svg:rect", {class: "life", x: Math.min(begin, width - 8 - drawn), y: y + 14, width: drawn, height: 7, rx: 2,
        fill: ending(life)[1]}, el("svg:title", null, `${nameOf(life)}: ${ending(life)[0]}, ${plural(life.partitions, "partition")}`)));
    }
    svg.append(el("svg:text", {x: 2, y: y + 10}, same.length > 1 ? `${short}: came ${same.length} times` : short));
  });
  return svg;
};

const legend = group => {
  const found = new Map();
  for (const life of group.lives.slice(0, 60)) found.set(`member: ${ending(life)[0]}`, ending(life)[1]);
  for (const each of group.rebalances) found.set(`rebalance: ${each.trigger || "unknown"}`, shared.triggers[each.trigger] || shared.grey);
  return el("p", {class: "legend"}, [...found].map(([name, colour]) => el("span", null, el("i", {css: {background: colour}}), name)));
};
