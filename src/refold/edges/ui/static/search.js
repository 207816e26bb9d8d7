/**
 * Places in all sessions that match some words, by session, each with whether the model reads it now.
 */

import { day, el, firstOf, number, refill } from "./dom.js";
import { ask } from "./server.js";


const SHOWN = 4;

export class SearchScreen {
	constructor(app, found) {
		this.app = app;
		this.found = found;
		this.heading = { title: `Search: ${found.query}` };
		this.node = el("div", { class: "home found" });
	}

	static async opened(app, query) {
		app.search.value = query;
		const found = query.trim() ? await ask("/api/find", { q: query }) : { query: "", sessions: [] };
		return new SearchScreen(app, found);
	}

	update() {
		const { sessions, cut } = this.found;
		const places = sessions.reduce((sum, one) => sum + one.hits.length, 0);
		const more = cut ? "the best " : "";
		refill(this.node,
			el("p", { class: "quiet", role: "status" }, places
				? `${more}${number(places, "place")} in ${number(sessions.length, "session")}`
				: "Nothing was found. Other words, or fewer, may find it."),
			sessions.map((one) => this.group(one)));
	}

	group(one) {
		return el("section", {}, el("h2", {}, el("a", { href: `#/s/${one.id}` }, one.title),
			el("small", {}, one.project)), firstOf(one.hits, SHOWN, (hit) => this.hit(one, hit)));
	}

	hit(one, hit) {
		const where = hit.hidden === null ? "" : hit.hidden ? "not on the page now" : "on the page";
		const isMessage = hit.kind === "message";
		return el("li", {}, el("a", { href: isMessage ? `#/s/${one.id}?m=${hit.seq}` : `#/s/${one.id}?at=${hit.seq}` },
			`#${hit.seq} ${[hit.role || hit.kind, hit.tool].filter(Boolean).join(" · ")}`),
			el("span", { class: `quiet${hit.hidden ? " off" : ""}` }, ` ${where}${hit.at_ms ? ` · ${day(hit.at_ms)}` : ""}`),
			el("p", { class: "text" }, hit.parts.map(([text, isMatch]) =>
				isMatch ? el("mark", {}, text) : text)));
	}
}
