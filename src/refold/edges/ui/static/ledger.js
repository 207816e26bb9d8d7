/**
 * What code read out of a session: requests, decisions, constraints, to-dos, errors, files and
 * commands, each with the message that it comes from.
 */

import { count, el, firstOf, refill } from "./dom.js";
import { ask, place } from "./server.js";


const KINDS = [
	["request", "Requests"], ["decision", "Decisions"], ["constraint", "Constraints"], ["todo", "To-dos"],
	["error", "Errors"], ["file", "Files"], ["command", "Commands"], ["artifact", "Artifacts"],
];
const SHOWN = 12;

export class LedgerScreen {
	constructor(app, id, about, facts) {
		this.app = app;
		this.id = id;
		this.facts = facts;
		this.heading = { title: about.title, words: [about.project, about.model].filter(Boolean).join(" · "), cost: about.billed.calls ? about.cost : null };
		this.node = el("div", { class: "home ledger" });
	}

	static async opened(app, id) {
		const [about, facts] = await Promise.all([ask(place(id)), ask(`${place(id)}/ledger`)]);
		return new LedgerScreen(app, id, about, facts);
	}

	update() {
		const groups = KINDS.map(([kind, name]) => ({ name, facts: this.facts.filter((fact) => fact.kind === kind) }))
			.filter((group) => group.facts.length);
		refill(this.node, groups.length
			? groups.map((group) => this.group(group.name, group.facts.reverse()))
			: el("section", { class: "empty" }, el("h2", {}, "Nothing yet"),
					el("p", {}, "No request, decision, file or error was read from this session.")));
	}

	group(name, facts) {
		return el("section", {}, el("h2", {}, `${name} `, el("small", {}, count(facts.length))), firstOf(facts, SHOWN, (fact) => this.row(fact)));
	}

	row(fact) {
		return el("li", {}, el("a", { href: `#/s/${this.id}?m=${fact.seq}` }, `#${fact.seq}`), " ",
			fact.state && el("span", { class: `tag ${fact.state}` }, fact.state), ` ${fact.text}`);
	}
}
