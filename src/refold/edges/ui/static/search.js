/**
 * Places in all sessions that match some words, by session, each with whether the model reads it now.
 */

import { day, el, firstOf, number } from "./dom.js";
import { ask } from "./server.js";

const SHOWN = 4;

/** @returns {Promise<import("./app.js").Screen>} */
export async function searchScreen(query) {
	const { sessions, cut } = query.trim() ? await ask("/api/find", { q: query }) : { sessions: [], cut: false };
	const places = sessions.reduce((sum, one) => sum + one.hits.length, 0);
	return { heading: { title: `Search: ${query}` }, node: el("div", { class: "home found" },
		el("p", { class: "quiet", role: "status" }, places
			? `${cut ? "the best " : ""}${number(places, "place")} in ${number(sessions.length, "session")}`
			: "Nothing was found. Other words, or fewer, may find it."),
		sessions.map((one) => el("section", {},
			el("h2", {}, el("a", { href: `#/s/${one.id}` }, one.title), el("small", {}, one.project)),
			firstOf(one.hits, SHOWN, (hit) => place(one.id, hit))))) };
}

function place(id, hit) {
	const where = hit.hidden === null ? "" : hit.hidden ? "not on the page now" : "on the page";
	return el("li", {}, el("a", { href: `#/s/${id}?${hit.kind === "message" ? "m" : "at"}=${hit.seq}` },
		`#${hit.seq} ${[hit.role || hit.kind, hit.tool].filter(Boolean).join(" · ")}`),
		el("span", { class: `quiet${hit.hidden ? " off" : ""}` }, ` ${where}${hit.at_ms ? ` · ${day(hit.at_ms)}` : ""}`),
		el("p", { class: "text" }, hit.parts.map(([text, isMatch]) => (isMatch ? el("mark", {}, text) : text))));
}
