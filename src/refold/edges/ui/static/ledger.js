/**
 * What code read out of a session: requests, decisions, constraints, to-dos, errors, files and
 * commands, each with the message that it comes from.
 */

import { count, el, firstOf } from "./dom.js";
import { ask, place } from "./server.js";
import { headingOf } from "./states.js";

const KINDS = [
	["request", "Requests"], ["decision", "Decisions"], ["constraint", "Constraints"], ["todo", "To-dos"],
	["error", "Errors"], ["file", "Files"], ["command", "Commands"], ["artifact", "Artifacts"],
];
const SHOWN = 12;

/** @returns {Promise<import("./app.js").Screen>} */
export async function ledgerScreen(id) {
	const [about, facts] = await Promise.all([ask(place(id)), ask(`${place(id)}/ledger`)]);
	const row = (fact) => el("li", {}, el("p", {}, el("a", { href: `#/s/${id}?m=${fact.seq}` }, `#${fact.seq}`), " ",
		fact.state && el("span", { class: `tag is-${fact.state}` }, fact.state), ` ${fact.text}`));
	const groups = KINDS.map(([kind, name]) => {
		const own = facts.filter((fact) => fact.kind === kind).reverse();
		return own.length ? el("section", {}, el("h2", {}, `${name} `, el("small", {}, count(own.length))),
			firstOf(own, SHOWN, row)) : null;
	});
	const none = el("section", { class: "empty" }, el("h2", {}, "Nothing yet"),
		el("p", {}, "No request, decision, file or error was read from this session."));
	return { heading: headingOf(about), node: el("div", { class: "home ledger" }, facts.length ? groups : none) };
}
