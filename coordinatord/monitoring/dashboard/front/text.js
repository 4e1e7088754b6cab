"use strict";
// Elements, and words for people. Every text of a peer becomes a text node here, never markup.

const $ = id => document.getElementById(id);

// Characters that are not shown as they are: controls, and those that change the direction of text.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const clean = text => String(text).replace(HIDDEN, each => "\\u" + each.charCodeAt(0).toString(16).padStart(4, "0"));

// `css` are properties, set without a style attribute, which the page's policy forbids; `on` are listeners.
const el = (name, attributes, ...children) => {
  const made = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (key === "css") for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(key, value === true ? "" : key === "title" ? clean(value) : value);
  }
  made.append(...children.flat(Infinity).filter(each => each != null && each !== false)
    .map(each => each instanceof Node ? each : clean(each)));
  return made;
};

const count = value => value == null ? "?" : value.toLocaleString("en");
const plural = (value, one, many) => `${count(value)} ${value === 1 ? one : many || one + "s"}`;

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const span = ms => {
  if (ms == null) return "?";
  const seconds = Math.abs(ms) / 1000;
  if (seconds > 0 && seconds < 1) return `${Math.round(Math.abs(ms))} ms`;
  const whole = Math.round(seconds);
  for (let at = 0; at < 3; at++) {
    const [unit, size] = UNITS[at], [below, small] = UNITS[at + 1];
    if (whole < size) continue;
    const rest = Math.floor(whole % size / small);
    return `${Math.floor(whole / size)} ${unit}` + (rest && whole < 10 * size ? ` ${rest} ${below}` : "");
  }
  return `${whole} s`;
};
const ago = (ms, now) => ms == null ? "never" : now - ms < 2000 ? "now" : `${span(now - ms)} ago`;

// A time in UTC, with its date if that is not today's.
const clock = (ms, now) => {
  if (ms == null || Math.abs(ms) > 8.6e15) return "?";
  const [day, time] = new Date(ms).toISOString().split("T");
  return `${day === new Date(now).toISOString().slice(0, 10) ? "" : day + " "}${time.slice(0, 8)} UTC`;
};
const rate = value => value == null ? "?" : `${value >= 10 || value === 0 ? Math.round(value).toLocaleString("en")
  : value.toPrecision(2)}/s`;
const bounded = (ms, bound) => ms == null ? "?" : `${bound ? bound + " " : ""}${span(ms)}`;
const BOUNDS = {"at least": "≥", "at most": "≤"};

const look = row => row.urgent || row.alarming ? "bad" : {ok: "good", behind: "warn", catching: "warn", waiting: "warn"}[row.status] || "calm";
const badge = row => el("span", {class: `badge ${look(row)}`}, row.status);

const path = (kind, name) => `#/${kind}/${encodeURIComponent(name)}`;
const link = (kind, name, shown) => el("a", {href: path(kind, name), title: name.length > 40 ? name : null},
  folded(shown ?? name));
const folded = name => { const all = [...name]; return all.length <= 80 ? name : all.slice(0, 60).join("") + " … " + all.slice(-15).join(""); };

// A table whose cells are labelled, so that a phone can show each row as a block. `heads`: name, and n for numbers,
// t for text.
const table = (id, caption, heads, rows) => el("div", {class: "table"}, el("table", {id, class: "cards"},
  el("caption", {class: "skip"}, caption),
  el("thead", null, el("tr", null, heads.map(head => el("th", {scope: "col", class: head.n ? "n" : null}, head.name)))),
  el("tbody", null, rows.map(cells => el("tr", null, cells.map((cell, at) => at === 0 ? el("th", {scope: "row"}, cell)
    : el("td", {class: heads[at].n ? "n" : heads[at].t ? "t" : null, "data-name": heads[at].t ? null : heads[at].name}, cell)))))));

const button = (text, act, attributes) => el("button", {type: "button", on: {click: act}, ...attributes}, text);

// Replace what is shown, and keep the keyboard's place: elements with the same data-key are the same.
const put = (at, ...children) => {
  const active = document.activeElement, key = active && at.contains(active) ? active.dataset.key : null;
  const folds = new Map([...at.querySelectorAll("details[data-fold]")].map(each => [each.dataset.fold, each.open]));
  at.replaceChildren(...children.flat().filter(each => each != null && each !== false));
  for (const each of at.querySelectorAll("details[data-fold]")) if (folds.has(each.dataset.fold)) each.open = folds.get(each.dataset.fold);
  if (key != null) for (const each of at.querySelectorAll("[data-key]")) if (each.dataset.key === key) each.focus({preventScroll: true});
};
