/**
 * The rows of the two panes: messages, stand-ins and compactions; and the texts behind them, asked
 * for when a row is first seen.
 */

import { count, dollars, el, number, refill, short } from "./dom.js";
import { ask, place } from "./server.js";
import { STATES } from "./states.js";

/** @typedef {import("./states.js").Session} Session */

export const MESSAGE_PX = 64, THIN_PX = 27, MARK_PX = 34, TALL_PX = 620;
const HEAD_PX = 46, LINE_PX = 19, LINES_MOST = 11, LINE_TOKENS = 14;
const CHUNK = 100;

/** The height of a stand-in, by its size. */
export function standinHeight(tokens) {
	return HEAD_PX + LINE_PX * Math.min(LINES_MOST, 2 + Math.ceil(tokens / LINE_TOKENS));
}

/** The texts of one session, each asked for once. */
export class Texts {
	constructor(id, arrived) {
		this.id = id;
		this.arrived = arrived;
		/** @type {Map<number, string[] | null>} */ this.chunks = new Map();
		/** @type {Map<number, any>} */ this.standins = new Map();
	}

	/** The beginning of a message, or null while it is on its way. */
	line(number) {
		const at = Math.floor(number / CHUNK);
		const chunk = this.chunks.get(at);
		const line = chunk?.[number - at * CHUNK];
		if (line !== undefined) return line;
		if (chunk !== null) {
			this.chunks.set(at, null);
			ask(`${place(this.id)}/lines`, { from: at * CHUNK, count: CHUNK }).then(
				(lines) => {
					this.chunks.set(at, lines);
					this.arrived();
				},
				() => this.chunks.delete(at),
			);
		}
		return null;
	}

	/** The text in place of a span, or null while it is on its way. */
	standin(edit) {
		const known = this.standins.get(edit);
		if (known !== undefined) return known;
		this.standins.set(edit, null);
		ask(`${place(this.id)}/standin/${edit}`).then(
			(value) => {
				this.standins.set(edit, value);
				this.arrived();
			},
			() => this.standins.delete(edit),
		);
		return null;
	}

	/** Forgets texts that may have grown. @param {number} from the number of the first new message */
	forget(from) {
		this.chunks.delete(Math.floor(from / CHUNK));
	}
}

/**
 * One message as a row.
 * @param {Session} session @param {Texts} texts @param {number} state
 * @param {object} options
 * @param {boolean} options.isChosen
 * @param {string} [options.note] instead of the state
 * @param {(number: number) => void} options.pick
 */
export function messageRow(session, texts, number, state, { isChosen, note, pick }) {
	const seq = session.seqs[number];
	const role = session.roleOf(number);
	const name = STATES[state];
	const isThin = session.thin.has(number);
	const line = texts.line(number);
	const cost = session.costOf(number);
	const tool = session.tools[number];
	const isPinned = session.pins.has(seq);
	return el(
		"article",
		{
			class: `row ${role} ${name}${isThin ? " thin" : ""}${note ? ` ${note}` : ""}`,
			tabindex: -1,
			"aria-label": `#${seq} ${role}, ${name}`,
			"aria-current": isChosen ? "true" : null,
			onclick: () => pick(number),
		},
		el(
			"header",
			{},
			el("b", { class: "role" }, role),
			tool && el("span", { class: "tool" }, tool),
			el("span", { class: "quiet" }, `#${seq}`),
			el("span", { class: "quiet" }, `${count(session.tokens[number])} tok`),
			cost !== null && el("span", { class: "quiet" }, dollars(cost)),
			session.failed.has(number) && el("span", { class: "error" }, "failed"),
			isPinned && el("span", { class: "pin" }, "pinned"),
			el("span", { class: "state" }, note ?? name),
		),
		isThin ? null : el("p", { class: tool ? "text code" : "text" }, line ?? "…"),
	);
}

/**
 * A stand-in as a row, with its text and links to the messages that it names.
 * @param {Session} session @param {Texts} texts @param {number} standin
 * @param {object} options
 * @param {boolean} options.isTall
 * @param {number} options.chosen the seq of the chosen message
 * @param {string} [options.note]
 * @param {() => void} options.grow
 * @param {(number: number) => void} options.pick
 */
export function standinRow(session, texts, standin, { isTall, chosen, note, grow, pick }) {
	const { first, last, tokens, edit } = session.standins[standin];
	const messages = session.said(last) - session.said(first - 1);
	const value = texts.standin(edit);
	const body = el("div", { class: "quote", tabindex: 0, role: "group", "aria-label": `Text for #${first} to #${last}` });
	if (value) refill(body, value.lines.map(([seq, line]) =>
		quoteLine(session, seq, line, chosen, pick)));
	else refill(body, el("p", { class: "quiet" }, "…"));
	const total = session.tokensBetween(first, last);
	return el(
		"article",
		{ class: `row standin${note ? ` ${note}` : ""}`, tabindex: -1, "aria-label": `Stands for #${first} to #${last}` },
		el(
			"header",
			{},
			el("b", {}, `#${first} to #${last}`),
			el("span", { class: "quiet size" }, `${number(messages, "message")}, ${count(total)} tokens in ${count(tokens)}`),
			el("span", { class: "state" }, note ?? ""),
			el("button", { class: "plain", onclick: grow }, isTall ? "shorter" : "taller"),
		),
		body,
	);
}

/** @param {Session} session */
function quoteLine(session, seq, line, chosen, pick) {
	const at = seq ? session.numberOf(seq) : -1;
	if (at < 0) return `${line}\n`;
	const name = `#${seq}`;
	const start = line.indexOf(name);
	const link = el(
		"button",
		{ class: `link${seq === chosen ? " chosen" : ""}`, "data-seq": seq, onclick: () => pick(at) },
		name,
	);
	return [line.slice(0, start), link, `${line.slice(start + name.length)}\n`];
}

/**
 * A compaction between two messages.
 * @param {import("./states.js").Compaction} one @param {(id: string) => void} open
 */
export function compactionRow(one, at, open) {
	const less = one.before > 0 ? Math.round((100 * (one.before - one.after)) / one.before) : 0;
	return el(
		"article",
		{ class: `row mark${one.live ? "" : " undone"}`, tabindex: -1, "aria-label": `Compaction ${at + 1}` },
		el(
			"button",
			{ class: "plain", onclick: () => open(one.id) },
			`Compaction ${at + 1}: ${short(one.before)} to ${short(one.after)} tokens, ${less} % less${one.live ? "" : ", undone"}`,
		),
	);
}
