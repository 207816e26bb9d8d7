/**
 * A long list of which only the visible rows are in the document. Heights are known beforehand, so
 * that scrolling needs no measuring; rows that stay keep their nodes, and the focus with them.
 */

import { el } from "./dom.js";
import { lower } from "./states.js";

const SPARE_PX = 120;

/** @typedef {{key: string, height: number, value: any}} Row */

export class List {
	/**
	 * @param {(row: Row) => HTMLElement} drawRow
	 */
	constructor(label, drawRow) {
		this.drawRow = drawRow;
		/** @type {Row[]} */ this.rows = [];
		this.tops = [0];
		/** @type {Map<string, HTMLElement>} */ this.drawn = new Map();
		this.inner = el("div", { class: "rows" });
		this.node = el("div", { class: "list", role: "feed", "aria-label": label, tabindex: 0 }, this.inner);
		this.node.addEventListener("scroll", () => this.draw(), { passive: true });
		this.seen = new ResizeObserver(() => this.draw());
		this.seen.observe(this.node);
	}

	/** Shows other rows. @param {Row[]} rows */
	show(rows) {
		this.rows = rows;
		let top = 0;
		this.tops = [0, ...rows.map((row) => (top += row.height))];
		this.inner.style.setProperty("height", `${top}px`);
		this.redraw();
	}

	/** Draws every visible row again, because what it shows has changed. */
	redraw() {
		const focused = document.activeElement?.closest("[data-key]");
		const key = focused && this.inner.contains(focused) ? focused.getAttribute("data-key") : null;
		this.drawn.clear();
		this.inner.replaceChildren();
		this.draw();
		if (key) this.drawn.get(key)?.focus({ preventScroll: true });
	}

	/** Draws the visible rows that are not drawn yet, and removes the others. */
	draw() {
		const top = this.node.scrollTop - SPARE_PX;
		const bottom = this.node.scrollTop + this.node.clientHeight + SPARE_PX;
		const first = Math.max(0, lower(this.tops, top + 1, (one) => one) - 1);
		/** @type {Set<string>} */
		const wanted = new Set();
		/** @type {HTMLElement | null} */
		let before = null;
		for (let at = first; at < this.rows.length && this.tops[at] < bottom; at++) {
			const row = this.rows[at];
			wanted.add(row.key);
			let node = this.drawn.get(row.key);
			if (!node) {
				node = this.drawRow(row);
				node.dataset.key = row.key;
				node.setAttribute("aria-setsize", String(this.rows.length));
				this.drawn.set(row.key, node);
				if (before) before.after(node);
				else this.inner.prepend(node);
			}
			node.setAttribute("aria-posinset", String(at + 1));
			node.style.setProperty("top", `${this.tops[at]}px`);
			node.style.setProperty("height", `${row.height}px`);
			before = node;
		}
		for (const [key, node] of this.drawn) {
			if (wanted.has(key)) continue;
			node.remove();
			this.drawn.delete(key);
		}
	}

	indexOf(key) {
		return this.rows.findIndex((row) => row.key === key);
	}

	/** Scrolls a row into view. @param {number} [share] of the height above it */
	reveal(key, share = 0.3) {
		const at = this.indexOf(key);
		if (at < 0) return;
		const top = this.tops[at];
		const { scrollTop, clientHeight } = this.node;
		const isSeen = top >= scrollTop && top + this.rows[at].height <= scrollTop + clientHeight;
		if (!isSeen) this.scrollTo(key, share);
	}

	scrollTo(key, share) {
		const at = this.indexOf(key);
		if (at >= 0) this.node.scrollTop = this.tops[at] - share * this.node.clientHeight;
		this.draw();
	}
}
