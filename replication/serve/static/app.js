// What a page gains by a script: it renews itself, times go on, keys work. Without it all is there, too.
"use strict";

const SECONDS = 5;
const main = document.getElementById("main");
let isAsking = false;
let isLate = false;

for (const button of document.querySelectorAll("button[hidden]")) button.hidden = false;

function theme(name) {
  if (name === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = name;
  const shown = document.querySelector(".theme span");
  if (shown) shown.textContent = name;
}

function stored() {
  try { return localStorage.getItem("theme") || "system"; } catch { return "system"; }
}

theme(stored());
document.querySelector(".theme")?.addEventListener("click", () => {
  const names = ["system", "light", "dark"];
  const next = names[(names.indexOf(stored()) + 1) % names.length];
  try { localStorage.setItem("theme", next); } catch { /* then it lasts for this page */ }
  theme(next);
});

function ago() {
  const time = document.querySelector("#as-of time");
  if (!time) return;
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time.dateTime)) / 1000));
  time.nextSibling.textContent = seconds < 120 ? ` (${seconds} s ago)` : ` (${Math.floor(seconds / 60)} min ago)`;
  let banner = document.getElementById("late");
  if (isLate && !banner) {
    banner = document.createElement("p");
    banner.id = "late";
    banner.className = "banner";
    banner.setAttribute("role", "status");
    banner.textContent = "This page could not be renewed; it is tried again every few seconds.";
    main.before(banner);
  } else if (!isLate && banner) banner.remove();
}

function keys(element) { // what finds an open <details> or the focus again after a renewal
  const all = [...main.querySelectorAll(element)];
  return (one) => all.indexOf(one);
}

async function renew() {
  const isTyping = main.contains(document.activeElement) && /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName);
  const isForm = document.querySelector('main form[method="post"] input[name="confirmed"], input[type="password"]');
  if (isAsking || document.hidden || isTyping || isForm) return;
  isAsking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(String(answer.status));
    if (answer.redirected) { location.reload(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const number = keys("details");
    const open = new Set([...main.querySelectorAll("details[open]")].map(number));
    const focused = main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const chosen = rows().findIndex((row) => row.classList.contains("chosen"));
    const scroll = scrollY;
    main.replaceChildren(...page.getElementById("main").childNodes);
    document.title = page.title;
    document.getElementById("as-of").replaceChildren(...page.getElementById("as-of").childNodes);
    [...main.querySelectorAll("details")].forEach((one, n) => { one.open = open.has(n); });
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    rows()[chosen]?.classList.add("chosen");
    for (const button of main.querySelectorAll("button[hidden]")) button.hidden = false;
    scrollTo(scrollX, scroll);
    isLate = false;
  } catch { isLate = true; } finally { isAsking = false; ago(); }
}

function rows() { return [...main.querySelectorAll("table.cards tbody tr:not(.note)")]; }

function choose(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("chosen"));
  const next = Math.min(all.length - 1, Math.max(0, at + step));
  all[at]?.classList.remove("chosen");
  all[next].classList.add("chosen");
  all[next].querySelector("a")?.focus({ preventScroll: true });
  all[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
  if (event.key === "/") { event.preventDefault(); main.querySelector('input[type="search"]')?.focus(); }
  if (event.key === "j") choose(1);
  if (event.key === "k") choose(-1);
  if (event.key === "r") renew();
  if (event.key === "?") document.querySelector("footer").scrollIntoView();
});

main.addEventListener("click", async (event) => {
  if (!event.target.matches("button.copy")) return;
  const step = event.target.previousElementSibling;
  try { await navigator.clipboard.writeText(step.textContent); event.target.textContent = "copied"; }
  catch { getSelection().selectAllChildren(step); }
});

document.querySelector(".reload")?.addEventListener("click", (event) => { event.preventDefault(); renew(); });
setInterval(renew, SECONDS * 1000);
setInterval(ago, 1000);
