/**
 * What a session cost, call by call; and what its window is made of, by kind and by tool.
 */

import { count, day, dollars, draw, el, figure, number, percent, quiet, table, time } from "./dom.js";
import { ask, place } from "./server.js";
import { Cursor, Session, headingOf } from "./states.js";

const HIGH = 150, COLUMNS = 600, ROWS = 200, DEAREST = 8, LARGEST = 12;
const KINDS = ["read", "written", "fresh", "output"];
const KIND_OF = { system: "system prompt", user: "user", assistant: "assistant", result: "results" };

/** @returns {Promise<import("./app.js").Screen>} */
export async function billScreen(id) {
	const session = new Session(await ask(place(id)));
	const { calls, breaks, about } = session;
	const heading = headingOf(about);
	if (!calls.length) {
		return { heading, node: el("section", { class: "empty" }, el("h2", {}, "No bill"),
			el("p", {}, "The program that wrote this session recorded no usage.")) };
	}
	const { billed } = about;
	const broken = breaks.reduce((sum, one) => sum + (one.cost ?? 0), 0);
	const dearest = [...calls].sort((one, other) => (other.cost ?? 0) - (one.cost ?? 0)).slice(0, DEAREST);
	const turn = (seq) => {
		const at = session.turns.findLastIndex((one) => one.reply <= seq);
		return at < 0 ? `#${seq}` : el("a", { href: `#/s/${id}?at=${session.turns[at].at}` }, `turn ${count(at + 1)}`);
	};
	return { heading, node: el("div", { class: "home" },
		el("div", { class: "figures" },
			figure(dollars(about.cost), "as billed"),
			figure(count(billed.calls), "calls"),
			figure(percent(billed.cache_read, billed.input), "read from the cache"),
			figure(dollars(broken), number(breaks.length, "cache break"))),
		el("h2", {}, "Every call"),
		callChart(calls),
		el("p", { class: "legend" }, ["read from the cache", "written to the cache", "fresh", "output"].map((name, at) =>
			el("span", {}, el("i", { class: KINDS[at] }), name))),
		el("h2", {}, "Cache breaks"),
		breaks.length
			? table("Cache breaks", ["turn", "why", ">read again", ">price"], breaks.map((one) => [
					turn(one.seq), one.why, count(one.tokens), dollars(one.cost)]))
			: quiet(billed.cache_read ? "The cached beginning never broke." : "No call used the provider's cache."),
		el("h2", {}, "By model"),
		table("By model", ["model", ">calls", ">input", ">cached", ">output", ">cost"],
			[...Map.groupBy(calls, (call) => call.model)].map(([model, own]) => {
				const sum = (name) => own.reduce((total, one) => total + one[name], 0);
				return [model || "unknown model", count(own.length), count(sum("input")), percent(sum("read"), sum("input")),
					count(sum("output")), own.some((one) => one.cost === null) ? "unknown" : dollars(sum("cost"))];
			})),
		el("h2", {}, "The dearest calls"),
		table("The dearest calls", ["turn", "when", ">input", ">output", ">cost"], dearest.map((one) => [
			turn(one.seq), `${day(one.at_ms)} ${time(one.at_ms)}`, count(one.input), count(one.output), dollars(one.cost)]))) };
}

/** @param {import("./states.js").Call[]} calls */
function callChart(calls) {
	const columns = Math.min(calls.length, COLUMNS);
	const width = Math.max(300, Math.min(1_100, columns * 14));
	const each = width / columns;
	const first = (column) => Math.floor((column * calls.length) / columns);
	const bars = Array.from({ length: columns }, (_, column) => calls.slice(first(column), first(column + 1))
		.reduce((most, one) => (one.input > most.input ? one : most)));
	const top = Math.max(1, ...bars.map((one) => one.input + one.output));
	return el("div", { class: "scrolls" }, draw("svg", { viewBox: `0 0 ${width} ${HIGH}`, width: "100%", height: HIGH,
		preserveAspectRatio: "none", role: "img", "aria-label": `Tokens of ${count(calls.length)} calls, at most ${count(top)}` },
		bars.map((one, at) => {
			let y = HIGH;
			const sizes = [one.read, one.written, Math.max(0, one.input - one.read - one.written), one.output];
			const about = sizes.map((tokens, kind) => `${count(tokens)} ${KINDS[kind]}`).join(", ");
			return draw("g", {}, draw("title", {}, `#${one.seq}: ${about}, ${dollars(one.cost)}`), sizes.map((tokens, kind) => {
				const height = (tokens / top) * (HIGH - 4);
				y -= height;
				return draw("rect", { class: KINDS[kind], x: at * each, width: Math.max(0.6, each - (each > 4 ? 1 : 0)), y, height });
			}));
		})));
}

/** @param {Record<string, string>} query @returns {Promise<import("./app.js").Screen>} */
export async function windowScreen(id, query) {
	const [columns, { tools: definitions }] = await Promise.all([ask(place(id)), ask(`${place(id)}/window`)]);
	const session = new Session(columns);
	const { about } = session;
	const at = Math.min(session.head, Number(query.at ?? session.head) || session.head);
	const page = new Cursor(session, at).page();
	const messages = page.filter((piece) => piece.message >= 0).map((piece) => piece.message);
	const kinds = { "system prompt": about.system_tokens, "tool definitions": about.tools_tokens, summaries: 0,
		user: 0, assistant: 0, results: 0 };
	for (const { standin } of page) if (standin >= 0) kinds.summaries += session.standins[standin].tokens;
	for (const one of messages) kinds[KIND_OF[session.roleOf(one)]] += session.tokens[one];
	const isShown = new Set(messages);
	/** @type {Map<string, {defined: number, calls: number, results: number, shown: number}>} */
	const tools = new Map();
	const tool = (name) => {
		if (!tools.has(name)) tools.set(name, { defined: 0, calls: 0, results: 0, shown: 0 });
		return tools.get(name) ?? tool("");
	};
	for (const one of definitions) tool(one.name).defined = one.tokens;
	for (let number = 0; number < session.said(at); number++) {
		const one = session.tools[number] && tool(session.tools[number]);
		if (!one) continue;
		if (session.roleOf(number) === "result") one.results += session.tokens[number];
		else one.calls++;
		if (isShown.has(number)) one.shown += session.tokens[number];
	}
	const counted = Object.values(kinds).reduce((sum, tokens) => sum + tokens, 0);
	const used = session.sizeOf(at) || counted;
	const parts = Object.entries({ ...kinds, free: 0 }).map(([name, tokens]) => ({ name, kind: name.replace(" ", "-"),
		tokens: name === "free" ? Math.max(0, about.window - used) : counted && (tokens * used) / counted }));
	const largest = messages.sort((one, other) => session.tokens[other] - session.tokens[one]).slice(0, LARGEST);
	return { heading: headingOf(about), node: el("div", { class: "home" },
		el("div", { class: "figures" },
			figure(count(used), `of ${count(about.window)} tokens${query.at ? `, at #${at}` : " now"}`),
			figure(percent(used, about.window), "of the window"),
			figure(count(about.compact_at), "tokens: it folds there"),
			figure(count(session.compactions.length), "compactions")),
		el("div", { class: "stack", role: "img", "aria-label": "The window by kind; the table below has the figures" },
			parts.map(({ name, kind, tokens }) => el("i", { class: kind, title: `${name}: ${count(tokens)}`,
				style: { "flex-grow": tokens / Math.max(1, about.window) } }))),
		table("The window by kind", ["kind", ">tokens", ">share"], parts.map(({ name, kind, tokens }) => [
			[el("i", { class: `key ${kind}` }), name], count(tokens), percent(tokens, about.window)])),
		el("h2", {}, "By tool"),
		tools.size
			? table("By tool", ["tool", ">definition", ">calls", ">results, all", ">on the page"],
					[...tools].sort(([, one], [, other]) => other.results + other.defined - one.results - one.defined).slice(0, ROWS)
						.map(([name, one]) => [name, one.defined ? count(one.defined) : "–", count(one.calls), count(one.results), count(one.shown)]))
			: quiet("No tool was defined or called."),
		el("h2", {}, "The largest pieces"),
		table("The largest pieces", ["message", "kind", ">tokens"], largest.map((one) => [
			el("a", { href: `#/s/${id}?m=${session.seqs[one]}` }, `#${session.seqs[one]}`),
			[session.roleOf(one), session.tools[one]].filter(Boolean).join(" · "), count(session.tokens[one])]))) };
}
