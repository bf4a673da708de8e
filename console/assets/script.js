// Keeps a page live: it takes what the server sends into the page, and lets times and bands go on in between.
// Without it, the pages reload.
"use strict";

const body = document.body;
const live = document.getElementById("live");
let origin = Number(body.dataset.origin);
let ahead = Number(body.dataset.now) - Date.now(); // how far the server's clock is ahead

const now = () => Date.now() + ahead;

// span writes a duration as the server does.
function span(ms) {
  const s = Math.max(0, ms / 1000);
  if (s < 9.95) return (Math.floor(s * 10) / 10).toFixed(1) + " s";
  const n = Math.floor(s);
  if (n < 60) return n + " s";
  if (n < 3600) return Math.floor(n / 60) + " min " + (n % 60) + " s";
  if (n < 86400) return Math.floor(n / 3600) + " h " + Math.floor((n % 3600) / 60) + " min";
  return Math.floor(n / 86400) + " d " + Math.floor((n % 86400) / 3600) + " h";
}

// visible are the rows that can be seen. To let the times of thousands go on would take too long.
const visible = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const e of entries) {
    if (!e.isIntersecting) visible.delete(e.target);
    else { visible.add(e.target); go(e.target); }
  }
});
const hidden = (e) => { const row = e.closest("#rows > tr"); return row && !visible.has(row); };

// go brings times and bands within an element to the present.
function go(root) {
  const t = now();
  for (const e of root.querySelectorAll("time")) {
    if (hidden(e)) continue;
    const text = e.dataset.since ? span(t - e.dataset.since) : span(e.dataset.until - t);
    if (e.textContent !== text) e.textContent = text;
  }
  const bands = root.matches && root.matches(".band") ? [root] : root.querySelectorAll(".band");
  const s = (t - origin) / 1000;
  for (const e of bands) {
    if (hidden(e)) continue;
    const box = e.viewBox.baseVal;
    box.x = s - e.dataset.window;
    box.width = e.dataset.window;
    for (const bar of e.querySelectorAll("[data-open]")) bar.setAttribute("width", Math.max(0, s - bar.getAttribute("x")).toFixed(2));
  }
}

function parse(html) {
  const t = document.createElement("template");
  t.innerHTML = html; // the server has escaped it
  return t.content.firstElementChild;
}

// put takes an element into the page in place of one with the same id, and keeps the focus.
function put(id, html) {
  const fresh = parse(html);
  const old = document.getElementById(id);
  if (!old) return fresh;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const path = focused && focused.getAttribute("href");
  go(fresh);
  old.replaceWith(fresh);
  watch(old, fresh);
  if (path) for (const a of fresh.querySelectorAll("a[href]")) if (a.getAttribute("href") === path) { a.focus(); break; }
  return fresh;
}

// watch watches whether a row can be seen, in place of an old one.
function watch(old, row) {
  if (old) { watcher.unobserve(old); visible.delete(old); }
  if (row && row.matches("#rows > tr")) watcher.observe(row);
}

// take takes a message into the page.
function take(message) {
  ahead = message.now - Date.now();
  origin = message.origin;
  const fresh = new Map();
  for (const [id, html] of Object.entries(message.parts || {})) fresh.set(id, put(id, html));
  for (const [id, ids] of Object.entries(message.lists || {})) arrange(document.getElementById(id), ids, fresh);
  stale();
}

// arrange gives a list these elements in this order. What is in its place is not moved.
function arrange(list, ids, fresh) {
  if (!list) return;
  const wanted = new Set(ids);
  for (const e of [...list.children]) if (!wanted.has(e.id)) { watch(e); e.remove(); }
  const few = ids.filter((id) => fresh.has(id) && !fresh.get(id).isConnected).length < 20;
  let next = list.firstElementChild;
  for (const id of ids) {
    const e = document.getElementById(id) || fresh.get(id);
    if (!e) continue;
    if (e === next) { next = next.nextElementSibling; continue; }
    const focused = e.contains(document.activeElement) ? document.activeElement : null;
    if (!e.isConnected) { e.classList.toggle("new", few); go(e); }
    list.insertBefore(e, next);
    watch(null, e);
    if (focused) focused.focus();
  }
}

// stale says that a form is about a lease that is over.
function stale() {
  const state = document.getElementById("state");
  const form = document.querySelector("form[data-acts]");
  if (!state || !form) return;
  const leases = new Set(state.dataset.leases.split("\n"));
  let old = true;
  for (const box of form.elements.lease.forEach ? form.elements.lease : [form.elements.lease]) if (leases.has(box.value)) old = false;
  form.querySelector("[data-old]").hidden = !old;
}

function say(text, how) {
  live.hidden = false;
  live.textContent = text;
  live.className = "live " + how;
}

let source = null;

function open() {
  if (source || document.hidden) return;
  source = new EventSource(body.dataset.events);
  source.onmessage = (e) => { take(JSON.parse(e.data)); say("live", "on"); };
  source.onerror = () => {
    const over = source.readyState === EventSource.CLOSED; // refused: EventSource does not try again
    say(over ? "not live" : "reconnecting", "off");
    if (over) { shut(); setTimeout(open, 5000); }
  };
}

function shut() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return open();
  shut();
  say("paused", "off");
});
document.addEventListener("keydown", (e) => {
  const field = document.querySelector("[data-shortcut='" + CSS.escape(e.key) + "']");
  if (!field || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
  e.preventDefault();
  field.focus();
  field.select();
});
setInterval(() => { if (!document.hidden && source && source.readyState === EventSource.OPEN) go(document); }, 500);
for (const row of document.querySelectorAll("#rows > tr")) watch(null, row);
say("connecting", "off");
open();
