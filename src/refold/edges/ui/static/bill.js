/**
 * What a session cost, call by call; and what its window is made of, by kind and by tool.
 */

import { count, day, dollars, draw, el, figure, number, percent, refill, table, time } from "./dom.js";
import { ask, place } from "./server.js";
import { Cursor, Session } from "./states.js";


const HIGH = 150, WIDE_MIN = 300, ROWS = 200, DEAREST = 8;

/** @param {Session} session */
function headingOf(id, session) {
	const { about } = session;
	return { title: about.title || id, words: [about.project, about.model].filter(Boolean).join(" · "), cost: about.billed.calls ? about.cost : null };
}

export class BillScreen {
	constructor(app, id, session) {
		this.app = app;
		this.id = id;
		this.session = session;
		this.heading = headingOf(id, session);
		this.node = el("div", { class: "home" });
	}

	static async opened(app, id) {
		return new BillScreen(app, id, new Session(await ask(place(id))));
	}

	update() {
		const { calls, breaks, about } = this.session;
		if (!calls.length) {
			refill(this.node, el("section", { class: "empty" }, el("h2", {}, "No bill"),
				el("p", {}, "The program that wrote this session recorded no usage.")));
			return;
		}
		const { billed } = about;
		const broken = breaks.reduce((sum, one) => sum + (one.cost ?? 0), 0);
		refill(this.node,
			el("div", { class: "figures" },
				figure(dollars(about.cost), "as billed"),
				figure(count(billed.calls), "calls"),
				figure(percent(billed.cache_read, billed.input), "read from the cache"),
				figure(breaks.length ? dollars(broken) : "$0", `${number(breaks.length, "cache break")}`)),
			el("h2", {}, "Every call"),
			this.chart(),
			el("p", { class: "legend" }, ["read from the cache", "written to the cache", "fresh", "output"].map((name, at) =>
				el("span", {}, el("i", { class: KINDS[at] }), name))),
			el("h2", {}, "Cache breaks"),
			breaks.length
				? table("Cache breaks", ["turn", "why", ">read again", ">price"], breaks.map((one) => [
						this.link(one.seq), one.why, count(one.tokens), dollars(one.cost)]))
				: el("p", { class: "quiet" }, billed.cache_read ? "The cached beginning never broke." : "No call used the provider's cache."),
			el("h2", {}, "By model"),
			table("By model", ["model", ">calls", ">input", ">cached", ">output", ">cost"], this.models()),
			el("h2", {}, "The dearest calls"),
			table("The dearest calls", ["turn", "when", ">input", ">output", ">cost"],
				[...calls].sort((one, other) => (other.cost ?? 0) - (one.cost ?? 0)).slice(0, DEAREST).map((one) => [
					this.link(one.seq), `${day(one.at_ms)} ${time(one.at_ms)}`, count(one.input), count(one.output), dollars(one.cost)])));
	}

	/** The turn of a call. */
	link(seq) {
		const { turns } = this.session;
		let at = turns.length - 1;
		while (at > 0 && turns[at].reply > seq) at--;
		if (at < 0) return `#${seq}`;
		return el("a", { href: `#/s/${this.id}?at=${turns[at].at}` }, `turn ${count(at + 1)}`);
	}

	models() {
		/** @type {Map<string, import("./states.js").Call[]>} */
		const groups = new Map();
		for (const call of this.session.calls) groups.set(call.model, [...(groups.get(call.model) ?? []), call]);
		return [...groups].map(([model, calls]) => {
			const sum = (name) => calls.reduce((total, one) => total + one[name], 0);
			const known = calls.every((one) => one.cost !== null);
			const cost = known ? calls.reduce((total, one) => total + (one.cost ?? 0), 0) : null;
			return [model || "unknown model", count(calls.length), count(sum("input")), percent(sum("read"), sum("input")),
				count(sum("output")), dollars(cost)];
		});
	}

	/** One bar for each call, or for a run of calls where they are many. */
	chart() {
		const { calls } = this.session;
		const columns = Math.min(calls.length, 600);
		const width = Math.max(WIDE_MIN, Math.min(1_100, columns * 14));
		const each = width / columns;
		const bars = Array.from({ length: columns }, (_, column) => {
			const first = Math.floor((column * calls.length) / columns);
			const last = Math.max(first + 1, Math.floor(((column + 1) * calls.length) / columns));
			return calls.slice(first, last).reduce((most, one) => (one.input > most.input ? one : most));
		});
		const top = Math.max(1, ...bars.map((one) => one.input + one.output));
		return el("div", { class: "scrolls" }, draw("svg", { viewBox: `0 0 ${width} ${HIGH}`, width: "100%", height: HIGH,
			preserveAspectRatio: "none", role: "img", "aria-label": `Tokens of ${count(calls.length)} calls, at most ${count(top)}` },
			bars.map((one, at) => {
				let y = HIGH;
				const fresh = Math.max(0, one.input - one.read - one.written);
				const about = `#${one.seq}: ${count(one.read)} read, ${count(one.written)} written, ${count(fresh)} fresh, ${count(one.output)} out, ${dollars(one.cost)}`;
				return draw("g", {}, draw("title", {}, about), [one.read, one.written, fresh, one.output].map((tokens, kind) => {
					const high = (tokens / top) * (HIGH - 4);
					y -= high;
					return draw("rect", { class: KINDS[kind], x: at * each, width: Math.max(0.6, each - (each > 4 ? 1 : 0)), y, height: high });
				}));
			})));
	}
}

const KINDS = ["read", "written", "fresh", "output"];

export class WindowScreen {
	constructor(app, id, session, tools) {
		this.app = app;
		this.id = id;
		this.session = session;
		this.tools = tools;
		this.heading = headingOf(id, session);
		this.node = el("div", { class: "home" });
	}

	static async opened(app, id) {
		const [columns, tools] = await Promise.all([ask(place(id)), ask(`${place(id)}/window`)]);
		return new WindowScreen(app, id, new Session(columns), tools);
	}

	update({ query }) {
		const { session } = this;
		const { about } = session;
		const at = Math.min(session.head, Number(query.at ?? session.head) || session.head);
		const page = new Cursor(session, at).page();
		const kinds = { "system prompt": about.system_tokens, "tool definitions": about.tools_tokens,
			summaries: 0, user: 0, assistant: 0, results: 0 };
		/** @type {Map<string, {calls: number, results: number, shown: number}>} */
		const tools = new Map();
		for (const piece of page) {
			if (piece.standin >= 0) {
				kinds.summaries += session.standins[piece.standin].tokens;
				continue;
			}
			const role = session.roleOf(piece.message);
			const kind = role === "result" ? "results" : role === "assistant" ? "assistant" : role === "system" ? "system prompt" : "user";
			kinds[kind] += session.tokens[piece.message];
		}
		const isShown = new Set(page.map((piece) => piece.message));
		for (let number = 0; number < session.said(at); number++) {
			const name = session.tools[number];
			if (!name) continue;
			const one = tools.get(name) ?? { calls: 0, results: 0, shown: 0 };
			if (session.roleOf(number) === "result") one.results += session.tokens[number];
			else one.calls++;
			if (isShown.has(number)) one.shown += session.tokens[number];
			tools.set(name, one);
		}
		const counted = Object.values(kinds).reduce((sum, tokens) => sum + tokens, 0);
		const used = session.sizeOf(at) || counted;
		const scale = counted ? used / counted : 1;
		const parts = Object.entries(kinds).map(([name, tokens]) => ({ name, tokens: tokens * scale }));
		const free = Math.max(0, about.window - used);
		const largest = page.filter((piece) => piece.message >= 0)
			.sort((one, other) => session.tokens[other.message] - session.tokens[one.message]).slice(0, 12);
		/** @type {Map<string, number>} */
		const defined = new Map(this.tools.tools.map((one) => [one.name, one.tokens]));
		const names = [...new Set([...tools.keys(), ...defined.keys()])];
		const sizeOf = (name) => (tools.get(name)?.results ?? 0) + (defined.get(name) ?? 0);
		refill(this.node,
			el("div", { class: "figures" },
				figure(count(used), `of ${count(about.window)} tokens${query.at ? `, at #${at}` : " now"}`),
				figure(percent(used, about.window), "of the window"),
				figure(count(about.compact_at), "tokens: it folds there"),
				figure(count(session.compactions.length), "compactions")),
			el("div", { class: "stack", role: "img", "aria-label": "The window by kind; the table below has the figures" },
				[...parts, { name: "free", tokens: free }].map((part) =>
					el("i", { class: part.name.replace(" ", "-"), title: `${part.name}: ${count(part.tokens)}`,
						style: { "flex-grow": part.tokens / Math.max(1, about.window) } }))),
			table("The window by kind", ["kind", ">tokens", ">share"], [...parts, { name: "free", tokens: free }].map((part) => [
				[el("i", { class: `key ${part.name.replace(" ", "-")}` }), part.name], count(part.tokens), percent(part.tokens, about.window)])),
			el("h2", {}, "By tool"),
			names.length
				? table("By tool", ["tool", ">definition", ">calls", ">results, all", ">on the page"],
						names.sort((one, other) => sizeOf(other) - sizeOf(one)).slice(0, ROWS).map((name) => [
							name, defined.has(name) ? count(defined.get(name) ?? 0) : "–", count(tools.get(name)?.calls ?? 0),
							count(tools.get(name)?.results ?? 0), count(tools.get(name)?.shown ?? 0)]))
				: el("p", { class: "quiet" }, "No tool was defined or called."),
			el("h2", {}, "The largest pieces"),
			table("The largest pieces", ["message", "kind", ">tokens"], largest.map((piece) => [
				el("a", { href: `#/s/${this.id}?m=${piece.seq}` }, `#${piece.seq}`),
				[session.roleOf(piece.message), session.tools[piece.message]].filter(Boolean).join(" · "),
				count(session.tokens[piece.message])])));
	}
}
