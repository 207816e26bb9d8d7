/**
 * The size of the page over a session: a curve with the window and the trigger, numbered
 * compactions, cache breaks, a bar for every message, and the slider. All share one axis: messages
 * in the order in which they were said.
 */

import { count, dollars, draw, el, percent, refill, short } from "./dom.js";
import { NOT_YET, STATES } from "./states.js";

/** @typedef {import("./states.js").Session} Session */
/** @typedef {import("./states.js").Cursor} Cursor */

const PAD = 8, CURVE_PX = 104, BARS_PX = 34;
const GAP_PX = 11, DIGIT_PX = 8;
const WINDOWS_DRAWN = 3; // a larger window, in pages, would flatten the curve

export class Chart {
	/**
	 * @param {Session} session @param {{go: (at: number) => void, pick: (number: number) => void,
	 *   compaction: (id: string) => void}} does
	 */
	constructor(session, does) {
		this.session = session;
		this.does = does;
		this.width = 0;
		this.cursor = null;
		this.chosen = "";
		this.curve = draw("svg", { class: "curve", role: "img", height: CURVE_PX });
		this.curve.addEventListener("click", (event) => {
			does.go(this.placeAt(event.offsetX));
		});
		this.labels = el("div", { class: "labels" });
		this.bars = el("canvas", { class: "bars", "aria-hidden": "true", height: BARS_PX });
		this.bars.addEventListener("click", (event) => {
			does.pick(Math.max(0, this.session.said(this.placeAt(event.offsetX)) - 1));
		});
		this.slider = el("input", { type: "range", class: "slider", min: 0, step: 1, "aria-label": "Turn" });
		this.slider.addEventListener("input", () => {
			does.go(this.placeAt(PAD + (this.slider.valueAsNumber / Math.max(1, this.most)) * this.inner));
		});
		this.node = el("div", { class: "chart" }, this.curve, this.labels, this.bars, this.slider);
		this.seen = new ResizeObserver(() => this.resize());
		this.seen.observe(this.node);
	}

	get most() {
		return this.session.seqs.length;
	}

	get inner() {
		return Math.max(1, this.width - 2 * PAD);
	}

	x(at) {
		return PAD + (this.inner * this.session.said(at)) / Math.max(1, this.most);
	}

	placeAt(x) {
		const said = Math.round(((x - PAD) / this.inner) * this.most);
		if (said >= this.most) return this.session.head;
		return said > 0 ? this.session.seqs[said - 1] : 0;
	}

	resize() {
		const width = this.node.clientWidth;
		if (width === this.width || !width) return;
		this.width = width;
		this.drawAll();
	}

	/** Draws everything again: the session has grown, or the size changed. */
	drawAll() {
		if (!this.width) return;
		this.slider.max = String(this.most);
		this.drawCurve();
		this.drawLabels();
		if (this.cursor) this.show(this.cursor, this.chosen);
	}

	drawCurve() {
		const { session, width } = this;
		const { window, compact_at: trigger } = session.about;
		const peak = session.sizes.reduce((most, size) => Math.max(most, size), 1);
		const top = 1.16 * (window <= WINDOWS_DRAWN * peak ? Math.max(peak, window)
			: trigger <= WINDOWS_DRAWN * peak ? Math.max(peak, trigger) : peak);
		const y = (tokens) => CURVE_PX - 2 - (tokens / top) * (CURVE_PX - 8);
		const line = this.path(y);
		this.line = draw("line", { class: "at", y1: 0, y2: CURVE_PX });
		const name = `Size of the page: at most ${count(peak)} tokens, window ${count(window)}`;
		this.curve.setAttribute("aria-label", name);
		this.curve.setAttribute("viewBox", `0 0 ${width} ${CURVE_PX}`);
		this.curve.setAttribute("width", String(width));
		refill(
			this.curve,
			draw("path", { class: "area", d: `${line} V${CURVE_PX} H${PAD} Z` }),
			draw("path", { class: "line", d: line }),
			limit(`window ${short(window)}`, "window", y(window), width, window <= top),
			limit(`folds at ${short(trigger)}`, "trigger", y(trigger), width, trigger <= top && y(trigger) < CURVE_PX - 14),
			session.breaks.map((one) => this.mark(one)),
			this.line,
		);
	}

	/** The curve, with the least and the most of each column of pixels. @param {(tokens: number) => number} y */
	path(y) {
		const { sizeAt, sizes } = this.session;
		const parts = [`M${PAD} ${y(0).toFixed(1)}`];
		let column = -1, low = 0, high = 0, last = 0;
		const end = () => {
			if (column < 0) return;
			const x = column.toFixed(0);
			if (low < last && low < high) parts.push(`H${x} V${y(high).toFixed(1)} V${y(low).toFixed(1)}`);
			else if (high > last) parts.push(`H${x} V${y(high).toFixed(1)}`);
			parts.push(`H${x} V${y(last).toFixed(1)}`);
		};
		for (let at = 0; at < sizes.length; at++) {
			const x = Math.round(this.x(sizeAt[at]));
			if (x !== column) {
				end();
				[column, low, high] = [x, sizes[at], sizes[at]];
			}
			low = Math.min(low, sizes[at]);
			high = Math.max(high, sizes[at]);
			last = sizes[at];
		}
		end();
		return `${parts.join(" ")} H${this.width - PAD}`;
	}

	mark(one) {
		const about = `Cache break: ${count(one.tokens)} tokens read again, ${dollars(one.cost)}. ${one.why}`;
		return draw(
			"circle",
			{ class: "break", cx: this.x(one.seq), cy: CURVE_PX - 5, r: 3 },
			draw("title", {}, about),
		);
	}

	drawLabels() {
		let free = -Infinity;
		const { compactions, about } = this.session;
		if (!compactions.length) {
			const full = percent(about.current, about.window);
			refill(this.labels, el("small", {}, `Nothing was folded yet: ${full} full, folds at ${short(about.compact_at)}`));
			return;
		}
		refill(this.labels, compactions.map((one, at) => {
			const x = Math.min(this.x(one.seq), this.width - 2 * PAD);
			const half = (GAP_PX + DIGIT_PX * String(at + 1).length) / 2;
			const isChosen = one.id === this.chosen;
			if (x - half < free && !isChosen) return null; // reached by key, and from its neighbors
			free = x + half;
			const undone = one.live ? "" : ", undone";
			const name = `Compaction ${at + 1}: ${short(one.tokens_before)} to ${short(one.tokens_after)} tokens${undone}`;
			return el("button", {
				class: `label${undone && " undone"}`, title: name, "aria-label": name,
				style: { left: `${x}px` }, "aria-current": isChosen ? "true" : null,
				onclick: () => this.does.compaction(one.id),
			}, at + 1);
		}));
	}

	/** Shows the states at a place. @param {Cursor} cursor @param {string} chosen the id of a compaction, if any */
	show(cursor, chosen) {
		this.cursor = cursor;
		if (chosen !== this.chosen) {
			this.chosen = chosen;
			this.drawLabels();
		}
		if (!this.width) return;
		const { session } = this;
		const x = this.x(cursor.at);
		this.line?.setAttribute("x1", String(x));
		this.line?.setAttribute("x2", String(x));
		const stop = session.stopAt(cursor.at);
		this.slider.value = String(session.said(cursor.at));
		const turn = stop < session.turns.length ? `turn ${stop + 1} of ${session.turns.length}` : "now";
		this.slider.setAttribute("aria-valuetext", `${turn}, ${count(session.sizeOf(cursor.at))} tokens`);
		this.drawBars(cursor);
	}

	drawBars(cursor) {
		const { session, width } = this;
		const scale = devicePixelRatio || 1;
		this.bars.width = width * scale;
		this.bars.height = BARS_PX * scale;
		this.bars.style.setProperty("width", `${width}px`);
		const context = this.bars.getContext("2d");
		if (!context) return;
		context.scale(scale, scale);
		const colors = STATES.map((name) => {
			this.bars.style.setProperty("color", `var(--${name})`);
			return getComputedStyle(this.bars).color;
		});
		const each = this.inner / Math.max(1, this.most);
		const wide = Math.max(1, each > 3 ? each - 1 : each);
		let column = -1, largest = 0;
		for (let number = 0; number < this.most; number++) {
			const x = PAD + number * each;
			const tokens = session.tokens[number];
			if (each < 1) { // one bar for a column of pixels: that of its largest message
				if (Math.floor(x) === column && tokens <= largest) continue;
				[column, largest] = [Math.floor(x), tokens];
			}
			const high = Math.min(BARS_PX, 4 + 3.2 * Math.log2(1 + tokens / 16));
			const state = cursor.state(number);
			context.fillStyle = colors[state];
			context.globalAlpha = state === NOT_YET ? 0.45 : 1;
			context.fillRect(each < 1 ? Math.floor(x) : x, BARS_PX - high, wide, high);
		}
	}
}

/** A dashed line with its name. */
function limit(name, kind, y, width, isDrawn) {
	if (!isDrawn) return null;
	return [
		draw("line", { class: `limit ${kind}`, x1: PAD, x2: width - PAD, y1: y, y2: y }),
		draw("text", { class: "name", x: width - PAD - 2, y: kind === "window" ? y - 3 : y + 12, "text-anchor": "end" }, name),
	];
}
