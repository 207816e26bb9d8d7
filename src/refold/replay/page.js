"use strict";
const told = JSON.parse(document.getElementById("told").textContent);
const slider = document.getElementById("turn");
const label = document.getElementById("label");
const choice = document.getElementById("policy");
const sides = document.getElementById("sides");
const now = document.getElementById("now");
const chosen = document.getElementById("chosen");

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A page is kept as how much of the one before it shares, and the runs of texts after that.
function pageAt(policy, turn) {
  const page = [];
  for (let at = 0; at <= turn; at += 1) {
    const [same, runs] = told.pages[policy][at];
    page.length = same;
    for (const [first, count] of runs) {
      for (let id = first; id < first + count; id += 1) page.push(id);
    }
  }
  return page;
}

function said(id, isNew) {
  const [role, text, more] = told.texts[id];
  const box = element("div", "said " + (role === "user" ? "user" : "") + (isNew ? " new" : ""));
  const by = isNew ? `${role}, not as it was said` : role;
  box.append(element("div", "role", by + (more ? ` (${more.toLocaleString()} characters more)` : "")));
  box.append(element("pre", "", text));
  return box;
}

// The originals that a page does not show at this place, behind a click.
function folded(ids) {
  const details = element("details", "fold");
  const count = ids.length === 1 ? "1 message" : `${ids.length.toLocaleString()} messages`;
  details.append(element("summary", "", `${count} folded here`));
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(...ids.map((id) => said(id, false)));
  });
  return details;
}

// Where in the log each text stands, the first place last.
function placesOf(seen) {
  const places = new Map();
  for (let place = seen.length - 1; place >= 0; place -= 1) {
    if (!places.has(seen[place])) places.set(seen[place], []);
    places.get(seen[place]).push(place);
  }
  return places;
}

// Each message of a page, and between them what the log has there and the page has not.
function withFolds(page, seen) {
  const places = placesOf(seen);
  const shown = new Set(page);
  const made = [];
  let after = 0;
  const close = (place) => {
    const gone = seen.slice(after, place).filter((id) => !shown.has(id));
    if (gone.length) made.push(folded(gone));
    after = place + 1;
  };
  for (const id of page) {
    const left = places.get(id);
    while (left?.length && left.at(-1) < after) left.pop();
    if (left?.length) close(left.pop());
    made.push(said(id, left === undefined));
  }
  close(seen.length);
  return made;
}

function side(policy, turn) {
  const column = element("section");
  const page = pageAt(policy, turn);
  const size = told.sizes[policy][turn].toLocaleString();
  const count = page.length.toLocaleString();
  const body = element("div", "page");
  body.tabIndex = 0;
  body.setAttribute("role", "region");
  body.setAttribute("aria-label", `the page of ${policy}`);
  body.append(...withFolds(page, told.log.slice(0, told.seen[turn])));
  column.append(element("h2", "", `${policy}: ${size} tokens, ${count} messages`), body);
  return column;
}

function draw() {
  const turn = Number(slider.value);
  label.textContent = `turn ${turn + 1} of ${told.turns}`;
  slider.setAttribute("aria-valuetext", label.textContent);
  const at = told.turns > 1 ? (1000 * turn) / (told.turns - 1) : 0;
  now.setAttribute("x1", at);
  now.setAttribute("x2", at);
  for (const curve of document.querySelectorAll(".curve")) {
    curve.classList.toggle("chosen", curve.dataset.policy === choice.value);
  }
  chosen.textContent = choice.value;
  if (told.turns) sides.replaceChildren(side(told.ours, turn), side(choice.value, turn));
}

function go(turn) {
  slider.value = turn;
  draw();
  slider.focus();
}

slider.addEventListener("input", draw);
choice.addEventListener("change", draw);
for (const button of document.querySelectorAll("button[data-turn]")) {
  button.addEventListener("click", () => go(Number(button.dataset.turn)));
}
draw();
