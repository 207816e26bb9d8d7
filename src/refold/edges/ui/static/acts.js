/**
 * Acts on the page: first the price, tried on a copy; then a yes; then the act, at the very head for
 * which the price was shown.
 */

import { count, dollars, el, number, panelHead, refill, quiet } from "./dom.js";
import { place, send } from "./server.js";

/** @typedef {import("./session.js").SessionScreen} SessionScreen */

const LEAST_DOLLARS = 0.0005;

/**
 * A button that asks for a price and shows it in a box, where the act can be confirmed.
 * @param {SessionScreen} screen
 * @param {HTMLElement} box
 * @param {object} act
 */
export function actButton(screen, box, name, act) {
	if (!screen.session.about.acts) return null;
	return el("button", { "data-act": name, onclick: () => rehearse(screen, box, name, act) }, `${name} …`);
}

/** @param {SessionScreen} screen @param {HTMLElement} box @param {string} name @param {any} act */
async function rehearse(screen, box, name, act, note = "") {
	refill(box, quiet("Tried on a copy …"));
	try {
		show(screen, box, name, act, await send(`${place(screen.id)}/rehearse`, act), note);
	} catch (error) {
		refill(box, el("div", { class: "price" }, el("b", {}, `${name}: not possible`), el("p", {}, error.message),
			error.hint && quiet(error.hint)));
	}
}

function show(screen, box, name, act, tried, note) {
	const { compactions } = screen.session;
	const numbers = tried.covered_by.map((id) => compactions.findIndex((one) => one.id === id) + 1);
	const all = { ...act, batches: [...tried.covered_by].reverse().concat(act.batches ?? []) };
	const once = tried.expired ? "nothing: the cache has expired" : dollars(tried.once);
	const sign = tried.later > 0 ? "+" : "−";
	const later = Math.abs(tried.later ?? 0) < LEAST_DOLLARS ? "about the same" : `${sign} ${dollars(Math.abs(tried.later))}`;
	const rows = [
		["page", `${count(tried.before)} to ${count(tried.after)} of ${count(tried.window)} tokens`],
		["pieces", `${count(tried.pieces[0])} to ${count(tried.pieces[1])}`],
		["cache", `${count(tried.rewritten)} tokens are written again`],
		["costs once", tried.nothing ? "nothing" : once],
		["every later call", tried.later === null ? "unknown" : later],
	];
	const confirm = el("button", { class: "primary", onclick: async () => {
		confirm.disabled = true;
		try {
			await send(`${place(screen.id)}/do`, { ...act, head: tried.head });
			refill(box);
			screen.goToStop(Infinity);
			screen.tell(`${name}: done. The next call reads the new page.`);
		} catch (error) {
			const isMoved = error.status === 409;
			if (isMoved) rehearse(screen, box, name, act, "The session went on meanwhile: this is the new price.");
			else refill(box, el("p", { class: "error", role: "alert" }, error.message));
		}
	} }, name);
	refill(box, el("div", { class: "price", role: "group", "aria-label": `Price of: ${name}` },
		el("b", {}, `${name}?`),
		note && el("p", { class: "error" }, note),
		el("dl", {}, rows.map(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
		tried.nothing && el("p", {}, "The page stays as it is."),
		numbers.length ? el("p", {}, `Later compactions (${numbers.join(", ")}) cover some of its messages. `,
			el("button", { class: "plain", onclick: () => rehearse(screen, box, `Undo ${all.batches.length}`, all) },
				"Undo all of them …")) : null,
		tried.back && el("p", {}, `${number(tried.back.requests, "request")} and ${number(tried.back.calls, "call")} after it are `
			+ `switched off; the calls stay billed. ${number(tried.back.files, "changed file")} on disk: left as they are.`),
		tried.made_room && el("p", {}, "Not all of it fits: the oldest messages would leave the page."),
		tried.due && el("p", {}, "The page would be over its limit: it is compacted again at the next call."),
		el("p", { class: "buttons" }, confirm, el("button", { onclick: () => refill(box) }, "Leave it")),
		quiet("Tried on a copy; it can be undone.")));
	confirm.focus();
}

/** What can be done with the page as it is now. @param {HTMLElement} panel @param {SessionScreen} screen */
export function pagePanel(panel, screen) {
	const box = el("div", { "aria-live": "polite" });
	const { resume } = screen.session.about;
	refill(panel,
		panelHead("The page now", () => screen.closePanel()),
		quiet("Each shows its price first. To pin or hide a message, or to go back to it, choose it."),
		el("p", { class: "buttons" }, ["Undo", "Redo", "Compact", "Clear"].map((name) =>
			actButton(screen, box, name, { act: name.toLowerCase() }))),
		box,
		resume && [el("h3", {}, "In its own agent"), el("pre", { class: "command" }, resume)]);
}
