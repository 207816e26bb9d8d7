/**
 * Elements and written values. Content becomes text nodes only: nothing here parses HTML.
 */

/** @typedef {Node | string | number | null | undefined | false | any[]} Child */

/**
 * An element with attributes and children. A function is a listener (`onclick`); `style` is an
 * object of CSS properties.
 * @param {Record<string, any>} [properties] @param {...Child} children @returns {any}
 */
export function el(tag, properties = {}, ...children) {
	return filled(document.createElement(tag), properties, children);
}

/** An element of a drawing. @param {Record<string, any>} properties @param {...Child} children @returns {any} */
export function draw(tag, properties, ...children) {
	return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

/** @param {Record<string, any>} properties @param {Child[]} children */
function filled(node, properties, children) {
	for (const [name, value] of Object.entries(properties)) {
		if (value === null || value === undefined || value === false) continue;
		if (typeof value === "function") node.addEventListener(name.slice(2), value);
		else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, String(one));
		else node.setAttribute(name, value === true ? "" : String(value));
	}
	fill(node, ...children);
	return node;
}

/** Appends children; strings become text nodes. @param {Element} node @param {...Child} children */
export function fill(node, ...children) {
	for (const child of children.flat(Infinity)) {
		if (child === null || child === undefined || child === false) continue;
		node.append(child instanceof Node ? child : String(child));
	}
}

/** Replaces the children of a node. @param {Element} node @param {...Child} children */
export function refill(node, ...children) {
	node.replaceChildren();
	fill(node, ...children);
}

/** `12,345` */
export function count(value) {
	return Math.round(value).toLocaleString("en-US");
}

/** `1 message`, `12 messages` */
export function number(value, noun) {
	return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** `999`, `58 k`, `1.05 M` */
export function short(value) {
	if (value < 10_000) return count(value);
	if (value < 999_500) return `${Math.round(value / 1_000)} k`;
	return `${(value / 1_000_000).toFixed(2)} M`;
}

/** Dollars, as exact as they are small. @param {number | null | undefined} value */
export function dollars(value) {
	if (value === null || value === undefined) return "unknown";
	if (value === 0) return "$0";
	if (value < 0.001) return "< $0.001";
	if (value < 1) return `$${value.toFixed(3)}`;
	return `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function percent(part, whole) {
	return whole > 0 ? `${Math.floor((100 * part) / whole)} %` : "–";
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** `18 Nov`, with the year if it is another one */
export function day(ms) {
	const at = new Date(ms);
	return (at.getFullYear() === new Date().getFullYear() ? DAY : YEAR).format(at);
}

export function time(ms) {
	return TIME.format(new Date(ms));
}

/**
 * A table with a heading for each column; a heading that begins with `>` is for numbers.
 * @param {string[]} heads
 * @param {Child[][]} rows
 */
export function table(caption, heads, rows) {
	const kind = (at) => (heads[at][0] === ">" ? "number" : null);
	const row = (tag, cells) => el("tr", {}, cells.map((cell, at) =>
		el(tag, { class: kind(at), scope: tag === "th" ? "col" : null }, cell)));
	return el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
		el("table", {},
			el("caption", { class: "unseen" }, caption),
			el("thead", {}, row("th", heads.map((head) => head.replace(/^>/, "")))),
			el("tbody", {}, rows.map((cells) => row("td", cells)))));
}

/** Words of less weight. @param {Child} words */
export function quiet(words, tag = "p") {
	return el(tag, { class: "quiet" }, words);
}

/** A button that is on or off. */
export function toggle(label, isOn, onclick, kind = "chip") {
	return el("button", { class: kind, "aria-pressed": String(isOn), onclick }, label);
}

/** The head of the details, with a button that closes them. @param {() => void} close */
export function panelHead(title, close) {
	return el("header", {}, el("h2", {}, title),
		el("button", { class: "close", "aria-label": "Close", onclick: close }, "×"));
}

/** A value with its name below. @param {Child} value @param {string} name */
export function figure(value, name) {
	return el("p", {}, el("b", {}, value), quiet(name, "span"));
}

/**
 * The first items of a list, and a button for the rest.
 * @template T
 * @param {T[]} items @param {(item: T) => Node} drawItem @param {string} noun @param {string} tag
 */
export function firstOf(items, most, drawItem, noun = "", tag = "ul") {
	const list = el(tag, {}, items.slice(0, most).map(drawItem));
	const rest = items.slice(most);
	const more = el("button", { class: "plain", onclick: () => {
		list.append(...rest.map(drawItem));
		more.remove();
	} }, `${count(rest.length)} more${noun}`);
	return [list, rest.length ? more : null];
}

/** Copies text, and says so on the button for a moment. @param {HTMLElement} button */
export async function copy(text, button) {
	const label = button.textContent ?? "";
	try {
		await navigator.clipboard.writeText(text);
		button.textContent = "Copied";
	} catch {
		button.textContent = text;
	}
	setTimeout(() => (button.textContent = label), 1_500);
}
