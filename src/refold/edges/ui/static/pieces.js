/**
 * The rows of the two panes: messages, stand-ins and compactions; and the texts behind them, asked
 * for when a row is first seen.
 */

import { count, dollars, el, number, percent, short } from "./dom.js";
import { ask, place } from "./server.js";
import { STATES } from "./states.js";

/** @typedef {import("./states.js").Session} Session */

export const MESSAGE_PX = 64, THIN_PX = 27, MARK_PX = 34, TALL_PX = 620;
const HEAD_PX = 46, LINE_PX = 19, LINES_MOST = 11, LINE_TOKENS = 14;
const CHUNK = 100;

export function standinHeight(tokens) {
	return HEAD_PX + LINE_PX * Math.min(LINES_MOST, 2 + Math.ceil(tokens / LINE_TOKENS));
}

/** The texts of one session, each asked for once. `arrived` is called when one has come. */
export class Texts {
	constructor(id, arrived) {
		this.id = id;
		this.arrived = arrived;
		/** @type {Map<string, any>} answers by their path; null while one is on its way */
		this.known = new Map();
	}

	/** @param {Record<string, number>} [query] */
	ask(path, query) {
		const key = path + (query?.from ?? "");
		if (this.known.has(key)) return this.known.get(key);
		this.known.set(key, null);
		ask(`${place(this.id)}/${path}`, query).then((value) => {
			this.known.set(key, value);
			this.arrived();
		}, () => this.known.delete(key));
		return null;
	}

	/** The beginning of a message, or null while it is on its way. */
	line(number) {
		const from = number - (number % CHUNK);
		return this.ask("lines", { from, count: CHUNK })?.[number - from] ?? null;
	}

	/** The text in place of a span, or null while it is on its way. */
	standin(edit) {
		return this.ask(`standin/${edit}`);
	}

	/** Forgets texts that may have grown. @param {number} from the number of the first new message */
	forget(from) {
		this.known.delete(`lines${from - (from % CHUNK)}`);
	}
}

/**
 * One message as a row. `note` is shown in place of the state.
 * @param {Session} session @param {Texts} texts @param {number} number @param {number} state
 * @param {{isChosen: boolean, note: string, pick: (number: number) => void}} options
 */
export function messageRow(session, texts, number, state, { isChosen, note, pick }) {
	const seq = session.seqs[number];
	const role = session.roleOf(number);
	const name = STATES[state];
	const isThin = session.thin.has(number);
	const cost = session.costOf(number);
	const tool = session.tools[number];
	const quiet = (text) => el("span", { class: "quiet" }, text);
	return el("article", {
		class: `row ${role} ${name}${isThin ? " thin" : ""} ${note}`, tabindex: -1,
		"aria-label": `#${seq} ${role}, ${name}`, "aria-current": isChosen ? "true" : null,
		onclick: () => pick(number),
	}, el("header", {},
		el("b", {}, role),
		tool && el("span", { class: "tool" }, tool),
		quiet(`#${seq}`),
		quiet(`${count(session.tokens[number])} tok`),
		cost !== null && quiet(dollars(cost)),
		session.failed.has(number) && el("span", { class: "error" }, "failed"),
		session.pins.has(seq) && el("span", { class: "pin" }, "pinned"),
		el("span", { class: "state" }, note || name)),
	isThin ? null : el("p", { class: tool ? "text code" : "text" }, texts.line(number) ?? "…"));
}

/**
 * A stand-in as a row, with its text and links to the messages that it names. `chosen` is the seq of
 * the chosen message.
 * @param {Session} session @param {Texts} texts @param {number} standin
 * @param {{isTall: boolean, chosen: number, note: string, grow: () => void, pick: (number: number) => void}} options
 */
export function standinRow(session, texts, standin, { isTall, chosen, note, grow, pick }) {
	const { first, last, tokens, edit } = session.standins[standin];
	const messages = session.said(last) - session.said(first - 1);
	const value = texts.standin(edit);
	const total = session.tokensBetween(first, last);
	return el("article", { class: `row standin ${note}`, tabindex: -1, "aria-label": `Stands for #${first} to #${last}` },
		el("header", {},
			el("b", {}, `#${first} to #${last}`),
			el("span", { class: "quiet size" }, `${number(messages, "message")}, ${count(total)} tokens in ${count(tokens)}`),
			el("span", { class: "state" }, note),
			el("button", { class: "plain", onclick: grow }, isTall ? "shorter" : "taller")),
		el("div", { class: "quote", tabindex: 0, role: "group", "aria-label": `Text for #${first} to #${last}` },
			value ? value.lines.map(([seq, line]) => quoteLine(session, seq, line, chosen, pick)) : "…"));
}

/** @param {Session} session */
function quoteLine(session, seq, line, chosen, pick) {
	const at = seq ? session.numberOf(seq) : -1;
	if (at < 0) return `${line}\n`;
	const name = `#${seq}`;
	const start = line.indexOf(name);
	const link = el("button", { class: `link${seq === chosen ? " chosen" : ""}`, "data-seq": seq, onclick: () => pick(at) }, name);
	return [line.slice(0, start), link, `${line.slice(start + name.length)}\n`];
}

/**
 * A compaction between two messages.
 * @param {import("./states.js").Compaction} one @param {(id: string) => void} open
 */
export function compactionRow(one, at, open) {
	const less = percent(one.tokens_before - one.tokens_after, one.tokens_before);
	const name = `Compaction ${at + 1}`;
	return el("article", { class: `row mark${one.live ? "" : " undone"}`, tabindex: -1, "aria-label": name },
		el("button", { class: "plain", onclick: () => open(one.id) },
			`${name}: ${short(one.tokens_before)} to ${short(one.tokens_after)} tokens, ${less} less${one.live ? "" : ", undone"}`));
}
