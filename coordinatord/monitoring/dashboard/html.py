"""Style and colours of the report and of the live page. Plain values: the daemon has no pyarrow."""

from __future__ import annotations

from kafka_wire.records.rebalance_ledger import Why

GREY = "#8a94a0"
LIVES = {
    None: ("there", "#3f7fbf"),
    "left": ("left", "#5aa469"),
    "replaced": ("replaced by a restart", "#b08ac0"),
    "expired": ("expired", "#d1495b"),
    "went": ("went", GREY),
}
"""Name and colour of each way in which a member ended."""

TRIGGERS = {
    Why.NEW_MEMBER: "#3f7fbf",
    Why.MEMBER_LEFT: "#5aa469",
    Why.SESSION_EXPIRED: "#d1495b",
    Why.LEADER_REJOINED: "#c58b2b",
    Why.METADATA_CHANGED: "#8f6bb3",
    Why.STATIC_MEMBER_RESTARTED: "#b08ac0",
    Why.NOT_SYNCED: "#e07b39",
    Why.NOT_REVOKED: "#e07b39",
    Why.TOO_MANY_MEMBERS: "#6b7480",
    Why.NOT_REJOINED: "#e07b39",
    Why.LOADED: "#6b7480",
    Why.FORCED: "#6b7480",
    Why.SUBSCRIPTION_CHANGED: "#8f6bb3",
    Why.TOPICS_CHANGED: "#2a9d8f",
    Why.REGEX_RESOLVED: "#6a9fb5",
    "assignor changed": "#b56576",
    Why.CONVERTED: "#7f8c4f",
}
"""Colours of the triggers of rebalances, of both protocols; similar triggers have the same colour."""

STYLE = """
:root { --ink: #1d232b; --soft: #5b6673; --line: #d9dfe6; --paper: #ffffff; --card: #f5f7f9; --bad: #b3261e;
  --warn: #a15c00; --good: #1a7f45; --calm: #5b6673; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --soft: #9aa6b3; --line: #333c46; --paper: #14181d;
  --card: #1c2229; --bad: #ff8a80; --warn: #f0b35a; --good: #6fd39b; --calm: #9aa6b3; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 84rem; padding: 1.5rem 1rem 4rem;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .3rem; color: var(--soft); font-weight: 600; }
.soft { color: var(--soft); } .tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.tile { background: var(--card); border-radius: .5rem; padding: .7rem 1.1rem; min-width: 9rem; }
.tile b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; } .tile.bad b { color: var(--bad); }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { font-size: .85rem; text-align: left; padding: .32rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; white-space: nowrap; } td.n, th.n { text-align: right; white-space: nowrap; }
td.w { white-space: nowrap; } .badge { font-weight: 600; } .bad { color: var(--bad); } .warn { color: var(--warn); }
.good { color: var(--good); } .calm { color: var(--calm); }
section { border-top: 1px solid var(--line); margin-top: 2.4rem; } a { color: inherit; }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; } figure { margin: 0; min-width: 0; }
.small { font-size: .78rem; margin: .2rem 0 1rem; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .78rem; color: var(--soft); }
.legend i { display: inline-block; width: .75rem; height: .75rem; border-radius: .15rem; margin-right: .35rem;
  vertical-align: -.08rem; } td.t { min-width: 16rem; } code { font-size: .85em; }
@media (max-width: 60rem) { .plots { grid-template-columns: 1fr; } .tile { flex: 1 1 7rem; min-width: 0; } }
"""
