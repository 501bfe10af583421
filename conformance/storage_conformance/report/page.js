"use strict";
const facts = JSON.parse(document.getElementById("facts").textContent);
const dialog = document.getElementById("detail");
const chapter = document.getElementById("chapter");
const status = document.getElementById("status");
const sheet = document.getElementById("sheet");

function element(name, text, parent) {
  const made = document.createElement(name);
  made.textContent = text;
  parent.append(made);
  return made;
}

// Sentences mark code with backticks; everything reaches the page as text, never as HTML.
function prose(name, text, parent) {
  const made = element(name, "", parent);
  text.split("`").forEach((part, n) => element(n % 2 ? "code" : "span", part, made));
  return made;
}

function block(title, text, body) {
  if (!text) return;
  element("h3", title, body);
  const pre = element("pre", text, body);
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", title);
}

function show(cell) {
  const result = facts.results[cell.dataset.n];
  const requirement = facts.requirements[result.requirement];
  const backend = facts.backends[result.backend];
  document.getElementById("heading").textContent = `${result.requirement} on ${backend.title}: ${result.outcome}`;
  const body = document.getElementById("body");
  body.replaceChildren();
  prose("blockquote", requirement.sentence, body);
  prose("p", `Why: ${requirement.why}`, body).className = "why";
  element("p", `${result.evaluations.toLocaleString("en")} evaluations, seed ${backend.seed}, ` +
    `profile ${backend.profile}, device ${backend.device}`, body);
  if (result.reason) element("p", result.reason, body);
  block("What came of it", result.message, body);
  block(result.shrunk ? "Shortest program" : "Program", result.steps.join("\n"), body);
  block("Counterexample script", result.script, body);
  dialog.showModal();
  dialog.scrollTop = 0;
}

function filter() {
  let shown = 0;
  for (const group of document.querySelectorAll("tbody")) {
    let left = 0;
    for (const row of group.querySelectorAll("tr[data-statuses]")) {
      const fits = (!chapter.value || chapter.value === group.dataset.chapter) &&
        (!status.value || row.dataset.statuses.split("|").includes(status.value));
      row.hidden = !fits;
      left += fits;
    }
    group.hidden = !left;
    shown += left;
  }
  document.getElementById("count").textContent = `${shown} of ${facts.count} requirements shown`;
}

const SIDEWAYS = { ArrowLeft: -1, ArrowRight: 1 };
const UPRIGHT = { ArrowUp: -1, ArrowDown: 1 };

function move(event) {
  const cell = event.target.closest("td");
  const sideways = SIDEWAYS[event.key], upright = UPRIGHT[event.key];
  if (!cell || !(sideways || upright)) return;
  const rows = [...sheet.querySelectorAll("tr[data-statuses]")].filter(row => row.getClientRects().length);
  let row = rows.indexOf(cell.parentNode), column = cell.cellIndex, next = null;
  while (!next) { // cells of what did not run have nothing to show, so that they are passed over
    row += upright || 0;
    column += sideways || 0;
    if (!rows[row] || !rows[row].cells[column]) return;
    next = rows[row].cells[column].querySelector("button");
  }
  event.preventDefault();
  next.focus();
}

sheet.addEventListener("click", event => {
  const cell = event.target.closest("button[data-n]");
  if (cell) show(cell);
});
sheet.addEventListener("keydown", move);
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
document.getElementById("close").addEventListener("click", () => dialog.close());
chapter.addEventListener("change", filter);
status.addEventListener("change", filter);
document.getElementById("filters").addEventListener("reset", () => setTimeout(filter));
document.getElementById("filters").addEventListener("submit", event => event.preventDefault());
filter(); // a browser keeps what was chosen across a reload
