"use strict";
// The page of a topic: who reads it. The page of a client or host: which groups and partitions it has.

const back = () => el("nav", {"aria-label": "Back"}, el("a", {href: "#/", "data-key": "back"}, "← all groups"));

const drawTopic = (topic, now) => put($("view"), back(), el("h2", {id: "name"}, "Topic ", folded(topic.name)),
  el("p", {class: "soft"}, `${plural(topic.partitions, "partition")} that groups read, ${plural(topic.records, "offset")} kept; read by ${plural(topic.readers_count, "group")}`),
  table("readers", "Groups that read the topic", [{name: "group"}, {name: "status here"}, {name: "reason", t: 1}, {name: "partitions", n: 1}, {name: "lag", n: 1}, {name: "time lag", n: 1}, {name: "last commit", n: 1}],
    topic.readers.map(row => [link("group", row.group), badge(row), row.why, count(row.partitions), count(row.lag), span(row.time_lag_ms), ago(row.last_commit_ms, now)])));

const drawClient = (client, now) => put($("view"), back(), el("h2", {id: "name"}, "Client or host ", folded(client.name)),
  el("p", {class: "soft"}, `${plural(client.members_count, "member")} at present`),
  table("places", "Members", [{name: "group"}, {name: "status"}, {name: "client"}, {name: "host"}, {name: "partitions", t: 1}, {name: "since", n: 1}, {name: "last commit", n: 1}],
    client.members.map(row => [link("group", row.group), badge(row), row.instance || row.client, row.host || "?",
      row.owned.length ? row.owned.join(", ") : plural(row.partitions, "partition"), clock(row.since_ms, now), ago(row.last_commit_ms, now)])));
