/**
 * A session: its chart, everything the agent saw beside the page that the model read at one turn,
 * and what is chosen: a message, or a compaction with the page before and after it.
 */

import { pagePanel } from "./acts.js";
import { Chart } from "./chart.js";
import { compactionPanel, compactionStates } from "./compaction.js";
import { count, day, dollars, el, number, percent, quiet, refill, short, time, toggle } from "./dom.js";
import { messagePanel } from "./inspector.js";
import { List } from "./list.js";
import { MARK_PX, MESSAGE_PX, TALL_PX, THIN_PX, Texts, compactionRow, messageRow, standinHeight,
	standinRow } from "./pieces.js";
import { ask, follow, inside, place } from "./server.js";
import { Cursor, ERASED, HIDDEN, QUOTED, REWOUND, SHORTENED, STATES, Session, WHOLE, headingOf,
	isOnPage } from "./states.js";

const SHOWN = [WHOLE, SHORTENED, QUOTED, HIDDEN, REWOUND, ERASED];
const BOUNDARY_SHARE = 0.45;

/** @typedef {import("./list.js").Row} Row */

export class SessionScreen {
	constructor(app, id, session) {
		this.app = app;
		this.id = id;
		this.session = session;
		this.cursor = new Cursor(session, session.head);
		this.isLatest = true;
		this.chosen = -1;
		this.compaction = "";
		this.filter = 0;
		this.side = "page";
		this.tall = new Set();
		/** @type {Map<string, number>} */ this.quoteTops = new Map();
		this.unseen = 0;
		this.texts = new Texts(id, () => this.arrived());
		this.chart = new Chart(session, {
			go: (at) => this.go(at),
			pick: (number) => this.pick(number),
			compaction: (one) => this.open(one),
		});
		this.facts = el("p", { class: "facts", role: "status" });
		this.chips = el("div", { class: "chips", role: "group", "aria-label": "Show only messages that are" });
		this.leftTitle = el("h2");
		this.rightTitle = el("h2");
		this.left = new List("Everything the agent saw", (row) => this.drawRow(row, "left"));
		this.right = new List("What the model read", (row) => this.drawRow(row, "right"));
		this.panel = el("aside", { class: "panel", hidden: true, "aria-label": "Details" });
		this.tabs = el("div", { class: "tabs", role: "group", "aria-label": "Pane" });
		this.panes = el("div", { class: "panes" },
			el("section", { class: "pane left" }, this.leftTitle, this.left.node),
			el("section", { class: "pane right" }, this.rightTitle, this.right.node),
			this.panel);
		this.node = el("div", { class: "session" }, this.chart.node,
			el("div", { class: "status" }, this.facts, this.chips), this.tabs, this.panes);
		this.end = follow((heads) => this.follow(heads));
	}

	static async opened(app, id) {
		return new SessionScreen(app, id, new Session(await ask(place(id))));
	}

	leave() {
		this.end();
	}

	get heading() {
		return headingOf(this.session.about);
	}

	/** @param {{query: Record<string, string>}} route */
	update({ query }) {
		const { session, cursor } = this;
		const { at, m, c, side, only } = query;
		const before = [cursor.at, this.compaction, this.left.rows.length > 0].join();
		const chosen = m ? session.numberOf(Number(m)) : -1;
		const isPicked = chosen >= 0 && chosen !== this.chosen;
		const one = session.compactions.find((each) => each.id === c);
		this.told = "";
		this.chosen = chosen;
		this.compaction = one?.id ?? "";
		this.filter = Math.max(0, STATES.indexOf(only ?? ""));
		this.side = side === "all" ? "all" : "page";
		this.isLatest = !at && !one;
		if (this.isLatest) this.unseen = 0;
		cursor.moveTo(Math.min(at ? Number(at) : one?.last ?? session.head, session.head));
		this.show(before !== [cursor.at, this.compaction, true].join());
		if (isPicked) this.reveal();
	}

	/** Changes what the address says, and shows it. @param {Record<string, any>} changes @param {boolean} [keeps] no new entry */
	navigate(changes, keeps = false) {
		const query = {
			at: this.isLatest ? null : this.cursor.at, m: this.session.seqs[this.chosen], c: this.compaction,
			side: this.side === "all" && "all", only: this.filter ? STATES[this.filter] : null, ...changes,
		};
		this.app.go(`/s/${this.id}`, query, keeps);
	}

	/** Says something until another place is shown. */
	tell(words) {
		this.told = words;
		this.drawFacts();
	}

	go(at) {
		this.goToStop(this.session.stopAt(at));
	}

	goToStop(stop) {
		const { session } = this;
		const at = stop < session.turns.length ? session.placeOf(Math.max(0, stop)) : null;
		this.navigate({ at, c: null }, true);
	}

	pick(number) {
		const { session } = this;
		if (number < 0 || number >= session.seqs.length) return;
		const m = session.seqs[number];
		const isSaid = m <= this.cursor.at;
		const stop = session.stopAt(m) + 1;
		this.navigate({ m, c: null, ...(!isSaid && { at: stop < session.turns.length ? session.placeOf(stop) : null }) });
		this.reveal();
	}

	open(id) {
		this.navigate({ c: id, m: null, at: null });
	}

	closePanel() {
		this.isActing = false;
		this.navigate({ m: null, c: null });
	}

	/** Scrolls both panes to the chosen message, or to the words of it. */
	reveal() {
		const number = this.chosen;
		const seq = this.session.seqs[number];
		this.left.reveal(`m${number}`);
		const cover = this.cursor.cover(seq);
		if (isOnPage(this.cursor.state(number))) this.right.reveal(`m${number}`);
		else if (cover >= 0) this.revealQuote(cover, seq);
	}

	revealQuote(standin, seq) {
		this.right.reveal(`s${standin}`);
		const row = this.right.drawn.get(`s${standin}`);
		/** @type {HTMLElement | null | undefined} */ const quote = row?.querySelector(".quote");
		/** @type {HTMLElement | null | undefined} */ const link = quote?.querySelector(`[data-seq="${seq}"]`);
		this.seeking = link ? null : [standin, seq];
		if (!quote || !link) return;
		quote.scrollTop = link.offsetTop - quote.offsetTop - 40;
		this.quoteTops.set(`rights${standin}`, quote.scrollTop);
	}

	/** Draws everything that depends on the place. @param {boolean} moves whether to go to the boundary */
	show(moves) {
		const { session, cursor } = this;
		this.chart.show(cursor, this.compaction);
		this.drawFacts();
		const one = session.compactions.find((each) => each.id === this.compaction);
		this.panes.classList.toggle("compared", Boolean(one));
		this.compared = one ? compactionStates(session, one) : null;
		if (one && this.compared) {
			const { before, after } = this.compared;
			refill(this.leftTitle, "Page before ", el("small", {}, this.sizeWords(before.page(), one.tokens_before)));
			refill(this.rightTitle, "Page after ", el("small", {}, this.sizeWords(after.page(), one.tokens_after)));
			this.left.show(this.pageRows(before));
			this.right.show(this.pageRows(after));
		} else {
			const said = session.said(cursor.at);
			refill(this.leftTitle, "Everything the agent saw ",
				el("small", {}, `${number(said, "message")}, ${count(session.tokensBetween(1, cursor.at))} tokens`));
			const page = cursor.page();
			refill(this.rightTitle, `What the model ${this.isLatest ? "will read next" : "read at this turn"} `,
				el("small", {}, this.sizeWords(page, session.sizeOf(cursor.at))));
			this.left.show(this.allRows());
			this.right.show(this.pageRows(cursor));
		}
		this.drawTabs();
		this.drawPanel(one);
		if (moves) this.goToBoundary();
	}

	sizeWords(page, tokens) {
		return `${number(page.length, "piece")}, ${count(tokens)} tokens`;
	}

	drawFacts() {
		const { session, cursor } = this;
		const stop = session.stopAt(cursor.at);
		const turn = session.turns[stop];
		const call = this.isLatest ? null : turn?.call;
		const number = session.said(cursor.at) - 1;
		const at = number >= 0 ? session.times[number] * 1_000 : 0;
		refill(
			this.facts,
			el("b", {}, this.isLatest ? "Now" : `Turn ${count(stop + 1)} of ${count(session.turns.length)}`),
			el("span", {}, `#${cursor.at}${at ? ` · ${day(at)} ${time(at)}` : ""}`),
			el("span", {}, `${count(session.sizeOf(cursor.at))} of ${count(session.about.window)} tokens`),
			call && el("span", {}, `${dollars(call.cost)} · ${percent(call.read, call.input)} from the cache`),
			this.told && el("span", { class: "done" }, this.told),
			this.unseen > 0 && el("button", { class: "chip new", onclick: () => this.goToStop(Infinity) },
				`${count(this.unseen)} new`),
			this.isLatest && session.about.acts && el("button", { class: "chip", onclick: () => this.openPage() }, "Change it …"),
			!inside && el("a", { class: "chip", href: `${place(this.id)}/save`, download: `${this.id}.html` }, "Save as a file"),
		);
		const counts = cursor.counts();
		refill(
			this.chips,
			SHOWN.filter((state) => counts[state] || state < REWOUND).map((state) =>
				toggle([el("i"), `${count(counts[state])} ${STATES[state]}`], this.filter === state,
					() => this.only(state), `chip ${STATES[state]}`)),
		);
	}

	only(state) {
		this.navigate({ only: this.filter === state ? null : STATES[state], side: "all" }, true);
	}

	drawTabs() {
		const names = this.compared ? ["Before", "After"] : ["Everything", "What the model read"];
		refill(
			this.tabs,
			["all", "page"].map((side, at) => toggle(names[at], this.side === side, () => this.navigate({ side }, true), "")),
		);
		this.panes.dataset.side = this.side;
	}

	/** Every message up to the place, with the compactions between them. @returns {Row[]} */
	allRows() {
		const { session, cursor } = this;
		const said = session.said(cursor.at);
		/** @type {Row[]} */
		const rows = [];
		let next = 0;
		for (let number = 0; number <= said; number++) {
			const seq = number < said ? session.seqs[number] : cursor.at + 1;
			while (!this.filter && session.compactions[next]?.seq < seq) {
				rows.push({ key: `c${next}`, height: MARK_PX, value: next });
				next++;
			}
			if (number === said || (this.filter && cursor.state(number) !== this.filter)) continue;
			rows.push(this.row(number));
		}
		return rows;
	}

	/** @returns {Row} */
	row(number) {
		return { key: `m${number}`, height: this.session.thin.has(number) ? THIN_PX : MESSAGE_PX, value: number };
	}

	/** The page at a place. @param {Cursor} cursor @returns {Row[]} */
	pageRows(cursor) {
		const { session } = this;
		const { system_tokens: system, tools_tokens: tools } = session.about;
		const rows = cursor.page().map(({ standin, message }) => (standin < 0 ? this.row(message) : {
			key: `s${standin}`, value: standin,
			height: this.tall.has(standin) ? TALL_PX : standinHeight(session.standins[standin].tokens),
		}));
		return system + tools > 0 ? [{ key: "system", height: THIN_PX, value: -1 }, ...rows] : rows;
	}

	drawRow(row, side) {
		const { session } = this;
		const pick = (number) => this.pick(number);
		if (row.key[0] === "c") {
			const one = session.compactions[row.value];
			return compactionRow(one, row.value, (id) => this.open(id));
		}
		if (row.key === "system") {
			const { system_tokens: system, tools_tokens: tools } = session.about;
			return el("article", { class: "row thin fixed", tabindex: -1 },
				el("header", {}, el("b", {}, "system prompt and tools"),
					quiet(`${count(system)} and ${count(tools)} tok`, "span"),
					el("a", { class: "state", href: `#/s/${this.id}/window` }, "window")));
		}
		const compared = this.compared;
		const cursor = !compared ? this.cursor : side === "left" ? compared.before : compared.after;
		if (row.key[0] === "s") {
			const isKept = compared && compared.before.isOpen(row.value) && compared.after.isOpen(row.value);
			const note = !compared || isKept ? "" : side === "left" ? "leaves" : "new";
			const node = standinRow(session, this.texts, row.value, {
				isTall: this.tall.has(row.value),
				chosen: this.chosen >= 0 ? session.seqs[this.chosen] : 0,
				note,
				grow: () => this.grow(row.value),
				pick,
			});
			this.keepScrolled(node.querySelector(".quote"), `${side}${row.key}`);
			return node;
		}
		const state = cursor.state(row.value);
		let note = "";
		if (compared) {
			const other = side === "left" ? compared.after : compared.before;
			note = isOnPage(other.state(row.value)) ? "" : side === "left" ? "leaves" : "new";
		}
		return messageRow(session, this.texts, row.value, state, {
			isChosen: row.value === this.chosen, note, pick,
		});
	}

	grow(standin) {
		if (!this.tall.delete(standin)) this.tall.add(standin);
		const { before, after } = this.compared ?? {};
		if (before) this.left.show(this.pageRows(before));
		this.right.show(this.pageRows(after ?? this.cursor));
	}

	/** A quote stays where it was scrolled to when its row is drawn again. */
	keepScrolled(quote, key) {
		requestAnimationFrame(() => {
			quote.scrollTop = Math.min(this.quoteTops.get(key) ?? 0, quote.scrollHeight);
			quote.addEventListener("scroll", () => {
				if (quote.textContent.length > 1) this.quoteTops.set(key, quote.scrollTop);
			});
		});
	}

	/** Goes to where the folded part of the page ends: the last stand-in, or the newest message. */
	goToBoundary() {
		for (const list of this.compared ? [this.left, this.right] : [this.right]) {
			const at = list.rows.findLastIndex((row) => row.key[0] === "s" && row.value >= 0);
			const row = (at >= 0 && list.rows[at + 1]) || list.rows.at(-1);
			if (!row) continue;
			list.scrollTo(row.key, at < 0 ? 0 : 0.62);
			if (!this.compared) {
				const beside = this.left.indexOf(row.key) < 0 ? this.left.rows.at(-1)?.key : row.key;
				this.left.scrollTo(beside, at < 0 ? 0 : BOUNDARY_SHARE);
			}
			if (at < 0) continue;
			const { key } = list.rows[at];
			this.quoteTops.set(`${list === this.left ? "left" : "right"}${key}`, Infinity);
			const quote = list.drawn.get(key)?.querySelector(".quote");
			if (quote) quote.scrollTop = quote.scrollHeight;
		}
	}

	drawPanel(one) {
		if (one || this.chosen >= 0 || !this.isLatest) this.isActing = false;
		const isShown = Boolean(one) || this.chosen >= 0 || this.isActing;
		this.panel.hidden = !isShown;
		const what = one?.id ?? String(this.chosen);
		const key = `${what}@${one ? "" : this.cursor.at}`;
		const [before] = this.panel.dataset.key?.split("@") ?? [];
		if (!isShown) delete this.panel.dataset.key;
		if (!isShown || this.panel.dataset.key === key) return;
		if (before === what && this.panel.querySelector("[aria-live]:not(:empty)")) return; // a question stays
		this.panel.dataset.key = key;
		if (one) compactionPanel(this.panel, this, one);
		else if (this.isActing) pagePanel(this.panel, this);
		else messagePanel(this.panel, this, this.chosen);
		this.panel.scrollTop = 0;
	}

	arrived() {
		this.left.redraw();
		this.right.redraw();
		if (this.seeking) this.revealQuote(...this.seeking);
		for (const node of this.panel.querySelectorAll("[data-line]")) {
			node.textContent = this.texts.line(Number(node.dataset.line)) ?? "";
		}
	}

	async follow(heads) {
		this.app.showLive(heads !== null);
		const head = heads?.[this.id];
		if (head === undefined || head === this.session.head || this.isAsking) return;
		this.isAsking = true;
		try {
			const known = this.session.seqs.length;
			const folded = this.session.compactions.length;
			const columns = await ask(place(this.id), head > this.session.head ? { after: this.session.head } : {});
			if (columns.after) this.session.extend(columns);
			else this.app.reload();
			this.texts.forget(known);
			if (this.isLatest) {
				const isAtEnd = this.left.node.scrollTop + this.left.node.clientHeight > this.left.node.scrollHeight - 90;
				this.cursor.moveTo(this.session.head);
				this.show(isAtEnd);
			} else {
				this.unseen += this.session.seqs.length - known;
				this.drawFacts();
			}
			this.chart.drawAll();
			const one = this.session.compactions.at(-1);
			if (one && this.session.compactions.length > folded) {
				this.tell(`Compaction ${folded + 1} just now: ${short(one.tokens_before)} to ${short(one.tokens_after)} tokens`);
			}
		} finally {
			this.isAsking = false;
		}
	}

	/** Whether the key was one of this screen's. @param {KeyboardEvent} event */
	key(event) {
		const { session } = this;
		const stop = this.isLatest ? session.turns.length : session.stopAt(this.cursor.at);
		const step = event.shiftKey ? 10 : 1;
		const moves = {
			ArrowLeft: () => this.goToStop(stop - step),
			ArrowRight: () => this.goToStop(stop + step),
			Home: () => this.goToStop(0),
			End: () => this.goToStop(session.turns.length),
			"[": () => this.nextCompaction(-1),
			"]": () => this.nextCompaction(1),
			j: () => this.pickNext(1, () => true),
			k: () => this.pickNext(-1, () => true),
			u: () => this.pickNext(1, (number) => session.requests.has(session.seqs[number])),
			e: () => this.pickNext(1, (number) => session.failed.has(number)),
			b: () => this.goToBoundary(),
			p: () => this.act("Pin") || this.act("Unpin"),
			h: () => this.act("Hide"),
			z: () => this.act("Undo") || (session.about.acts && (this.openPage(), this.act("Undo"))),
			Escape: () => this.closePanel(),
		};
		const move = moves[event.key];
		const state = SHOWN[Number(event.key) - 1];
		if (move) move();
		else if (state) this.only(state);
		else return false;
		return true;
	}

	/** Asks for the price of an act that the panel offers. */
	act(name) {
		const button = this.panel.querySelector(`[data-act="${name}"]`);
		button?.click();
		return Boolean(button);
	}

	openPage() {
		this.navigate({ at: null, m: null, c: null });
		this.isActing = true;
		this.drawPanel();
	}

	/** Chooses the next message of a kind, around the end. @param {(number: number) => boolean} fits */
	pickNext(step, fits) {
		const said = this.session.said(this.cursor.at);
		const start = this.chosen >= 0 ? this.chosen : step > 0 ? -1 : said;
		for (let at = start + step, tries = 0; tries < said; at += step, tries++) {
			const number = ((at % said) + said) % said;
			if (fits(number)) return this.pick(number);
		}
	}

	nextCompaction(step) {
		const { compactions } = this.session;
		const now = compactions.findIndex((one) => one.id === this.compaction);
		const later = compactions.filter((one) => one.seq <= this.cursor.at).length;
		const next = now >= 0 ? now + step : step > 0 ? later : later - 1;
		const one = compactions[Math.max(0, Math.min(compactions.length - 1, next))];
		if (one) this.open(one.id);
	}
}
