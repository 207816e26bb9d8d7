/**
 * A session as columns that only grow, and a cursor that knows every message's state at one place.
 *
 * The server folds the log once and sends all changes of state. Moving the cursor applies them
 * forward or takes them back, so any turn is shown without asking again.
 */

export const NOT_YET = 0, WHOLE = 1, SHORTENED = 2, QUOTED = 3, HIDDEN = 4, REWOUND = 5, ERASED = 6;
export const STATES = ["later", "whole", "shortened", "quoted", "hidden", "rewound", "erased"];
export const ROLES = { s: "system", u: "user", a: "assistant", t: "result" };

/** @typedef {{id: string, seq: number, last: number, at_ms: number, strategy: string, reason: string, purpose: string,
 *   edits: number, tokens_before: number, tokens_after: number, live: boolean}} Compaction */
/** @typedef {{seq: number, at_ms: number, input: number, read: number, written: number,
 *   output: number, cost: number | null, model: string}} Call */
/** `until` is 0 while it is on the page.
 * @typedef {{edit: number, first: number, last: number, tokens: number, since: number, until: number}} Standin */
/** @typedef {{at: number, reply: number, call: Call | null}} Turn */
/** @typedef {{seq: number, tokens: number, cost: number | null, why: string}} Break */
/** A piece of the page: a message by its number, or a stand-in by its number.
 * @typedef {{seq: number, message: number, standin: number}} Piece */

export class Session {
	constructor(columns) {
		this.seqs = [];
		this.roles = [];
		this.tokens = [];
		this.times = [];
		this.tools = [];
		this.pairs = [];
		this.failed = new Set();
		this.thin = new Set();
		this.changedAt = [];
		this.changed = [];
		this.changedTo = [];
		this.changedFrom = [];
		/** @type {Standin[]} */ this.standins = [];
		this.sizeAt = [];
		this.sizes = [];
		/** @type {Turn[]} */ this.turns = [];
		/** @type {Call[]} */ this.calls = [];
		this.requests = new Set();
		/** @type {Map<number, number>} */ this.now = new Map();
		/** @type {Compaction[]} */ this.compactions = [];
		/** @type {Break[]} */ this.breaks = [];
		this.pins = new Set();
		/** @type {any} */ this.about = {};
		this.head = 0;
		this.extend(columns);
	}

	/** Adds what came after the head. @param {any} columns */
	extend(columns) {
		const { messages } = columns;
		const seqs = sums(messages.seq, this.seqs.at(-1) ?? 0);
		this.seqs.push(...seqs);
		this.roles.push(...messages.role);
		this.tokens.push(...messages.tokens);
		this.times.push(...sums(messages.at_s, 0));
		this.tools.push(...messages.tool);
		this.pairs.push(...messages.pair);
		for (const one of messages.failed) this.failed.add(one);
		for (const one of messages.thin) this.thin.add(one);
		for (const [edit, first, last, tokens, since, until] of columns.standins) {
			const known = this.standins.find((one) => one.edit === edit && one.first === first && one.since === since);
			if (known) known.until = until;
			else this.standins.push({ edit, first, last, tokens, since, until });
		}
		const [at, what, state] = columns.changes;
		for (let place = 0; place < at.length; place++) {
			const before = this.now.get(what[place]) ?? WHOLE;
			this.changedAt.push(at[place]);
			this.changed.push(what[place]);
			this.changedTo.push(state[place]);
			this.changedFrom.push(before);
			this.now.set(what[place], state[place]);
		}
		this.sizeAt.push(...columns.sizes[0]);
		this.sizes.push(...columns.sizes[1]);
		this.calls.push(
			...rows(columns.calls, ["seq", "at_ms", "input", "read", "written", "output", "cost", "model"]),
		);
		this.turns.length = columns.turns_from;
		this.turns.push(...rows(columns.turns, ["at", "reply"]));
		this.joinCalls(Math.max(0, columns.turns_from - 1));
		for (const seq of columns.requests) this.requests.add(seq);
		this.compactions = columns.compactions;
		this.breaks = columns.breaks;
		this.pins = new Set(columns.pins);
		this.head = columns.head;
		this.about = columns;
	}

	/** Gives each turn the call that paid for it. */
	joinCalls(from) {
		const first = this.turns[from]?.reply ?? 0;
		let at = lower(this.calls, first, (call) => call.seq);
		for (let turn = from; turn < this.turns.length; turn++) {
			const next = this.turns[turn + 1]?.reply ?? Infinity;
			const call = this.calls[at];
			const isOwn = call && call.seq >= this.turns[turn].reply && call.seq < next;
			this.turns[turn].call = isOwn ? call : null;
			while (at < this.calls.length && this.calls[at].seq < next) at++;
		}
	}

	/** The places that the slider visits: what each call read, and now. */
	get stops() {
		return this.turns.length + 1;
	}

	placeOf(stop) {
		return stop < this.turns.length ? this.turns[stop].at : this.head;
	}

	stopAt(at) {
		if (at >= this.head) return this.turns.length;
		return Math.max(0, lower(this.turns, at + 1, (turn) => turn.at) - 1);
	}

	said(at) {
		return lower(this.seqs, at + 1, (seq) => seq);
	}

	/** The number of a message, or -1. */
	numberOf(seq) {
		const number = lower(this.seqs, seq, (one) => one);
		return this.seqs[number] === seq ? number : -1;
	}

	sizeOf(at) {
		return this.sizes[lower(this.sizeAt, at + 1, (seq) => seq) - 1] ?? 0;
	}

	/** What the call of a message cost, for the first message of a reply. */
	costOf(number) {
		if (this.roles[number] !== "a") return null;
		const turn = this.turns[lower(this.turns, this.seqs[number], (one) => one.reply)];
		return turn?.reply === this.seqs[number] && turn.call ? turn.call.cost : null;
	}

	tokensBetween(first, last) {
		let total = 0;
		for (let at = this.said(first - 1); this.seqs[at] <= last; at++) total += this.tokens[at];
		return total;
	}

	/** What a message is: `user`, `assistant`, `result`. */
	roleOf(number) {
		const isResult = this.pairs[number] >= 0 || (this.roles[number] === "t");
		return isResult ? "result" : ROLES[/** @type {"s"} */ (this.roles[number])];
	}
}

export class Cursor {
	constructor(session, at) {
		this.session = session;
		this.at = 0;
		this.next = 0;
		/** @type {Map<number, number>} changed messages only */
		this.states = new Map();
		this.moveTo(at);
	}

	moveTo(at) {
		const { changedAt, changed, changedTo, changedFrom } = this.session;
		while (this.next < changedAt.length && changedAt[this.next] <= at) {
			this.states.set(changed[this.next], changedTo[this.next]);
			this.next++;
		}
		while (this.next > 0 && changedAt[this.next - 1] > at) {
			this.next--;
			this.states.set(changed[this.next], changedFrom[this.next]);
		}
		this.at = at;
	}

	state(number) {
		if (this.session.seqs[number] > this.at) return NOT_YET;
		return this.states.get(number) ?? WHOLE;
	}

	counts() {
		const counts = STATES.map(() => 0);
		const said = this.session.said(this.at);
		for (let number = 0; number < said; number++) counts[this.state(number)]++;
		return counts;
	}

	/** The pieces of the page, in order. @returns {Piece[]} */
	page() {
		const { seqs, standins } = this.session;
		/** @type {Piece[]} */
		const pieces = [];
		standins.forEach((one, standin) => {
			if (this.isOpen(standin)) pieces.push({ seq: one.first, message: -1, standin });
		});
		const said = this.session.said(this.at);
		for (let number = 0; number < said; number++) {
			const state = this.states.get(number) ?? WHOLE;
			if (isOnPage(state)) pieces.push({ seq: seqs[number], message: number, standin: -1 });
		}
		return pieces.sort((one, other) => one.seq - other.seq);
	}

	isOpen(standin) {
		const { since, until } = this.session.standins[standin];
		return since <= this.at && (until === 0 || until > this.at);
	}

	/** The stand-in for a message at this place, or -1. */
	cover(seq) {
		return this.session.standins.findIndex((one, standin) =>
			one.first <= seq && seq <= one.last && this.isOpen(standin));
	}
}

/** What the head of the page says of a session. @param {any} about */
export function headingOf({ id, title, project, model, billed, cost }) {
	const words = [project, model].filter(Boolean).join(" · ");
	return { title: title || id, words, cost: billed.calls ? cost : null };
}

/** Whether a message in this state has a place of its own on the page. */
export function isOnPage(state) {
	return state === WHOLE || state === SHORTENED || state === ERASED;
}

/**
 * The first index whose key is not below a value.
 * @template T
 * @param {T[]} list @param {(item: T) => number} key
 */
export function lower(list, value, key) {
	let low = 0;
	let high = list.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (key(list[middle]) < value) low = middle + 1;
		else high = middle;
	}
	return low;
}

/** Running sums of differences. @param {number[]} steps */
function sums(steps, start) {
	return steps.map((step) => (start += step));
}

/** Columns as objects. @param {any[][]} columns @param {string[]} names @returns {any[]} */
function rows(columns, names) {
	return (columns[0] ?? []).map((_, at) =>
		Object.fromEntries(names.map((name, column) => [name, columns[column][at]])),
	);
}
