"use strict";
const told = JSON.parse(document.getElementById("told").textContent);
const slider = document.getElementById("turn");
const label = document.getElementById("label");
const choice = document.getElementById("policy");
const sides = document.getElementById("sides");
const now = document.getElementById("now");

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A page is kept as how much of the one before it shares, and what comes after that.
function pageAt(policy, turn) {
  let page = [];
  for (let at = 0; at <= turn; at += 1) {
    const [same, rest] = told.pages[policy][at];
    page = page.slice(0, same).concat(rest);
  }
  return page;
}

function said(id, isNew) {
  const [role, text, more] = told.texts[id];
  const box = element("div", "said " + (role === "user" ? "user" : "") + (isNew ? " new" : ""));
  box.append(element("div", "role", role + (more ? ` (${more.toLocaleString()} characters more)` : "")));
  box.append(element("pre", "", text));
  return box;
}

function side(policy, turn) {
  const column = element("section");
  const page = pageAt(policy, turn);
  const seen = told.log.slice(0, told.seen[turn]);
  const shown = new Set(page);
  const known = new Set(seen);
  const folded = seen.filter((id) => !shown.has(id));
  column.append(element("h2", "", `${policy}: ${told.sizes[policy][turn].toLocaleString()} tokens`));
  if (folded.length) {
    const details = element("details");
    details.append(element("summary", "", `${folded.length} messages are not on this page as they were said`));
    details.addEventListener("toggle", () => {
      if (details.childElementCount === 1) details.append(...folded.map((id) => said(id, false)));
    });
    column.append(details);
  }
  column.append(...page.map((id) => said(id, !known.has(id))));
  return column;
}

function draw() {
  const turn = Number(slider.value);
  label.textContent = `turn ${turn + 1} of ${told.turns}`;
  const at = told.turns > 1 ? (1000 * turn) / (told.turns - 1) : 0;
  now.setAttribute("x1", at);
  now.setAttribute("x2", at);
  for (const curve of document.querySelectorAll(".curve")) {
    curve.classList.toggle("chosen", curve.dataset.policy === choice.value);
  }
  sides.replaceChildren(side(told.ours, turn), side(choice.value, turn));
}

slider.addEventListener("input", draw);
choice.addEventListener("change", draw);
draw();
