/**
 * The page: the key's exchange, the header, the address, and the screen that it names.
 *
 * Every state is in the fragment of the address: `#/s/ID?at=812&m=70`. A screen is made again
 * when its path changes, and updated when the rest does.
 */

import { billScreen, windowScreen } from "./bill.js";
import { dollars, el, refill, quiet } from "./dom.js";
import { HomeScreen, UsageScreen } from "./home.js";
import { ledgerScreen } from "./ledger.js";
import { searchScreen } from "./search.js";
import { inside, send } from "./server.js";
import { SessionScreen } from "./session.js";

/** @typedef {{path: string[], query: Record<string, string>}} Route */
/**
 * @typedef {object} Screen
 * @property {HTMLElement} node
 * @property {{title: string, words?: string, cost?: number | null}} heading
 * @property {(route: Route) => void} [update] without it, it is made again
 * @property {() => void} [leave]
 * @property {(event: KeyboardEvent) => boolean} [key]
 */

const KEYS = [
	["/", "search"], ["← →", "turn before, after"], ["Shift ← →", "ten turns"],
	["Home End", "first turn, now"], ["[ ]", "compaction before, after"], ["j k", "message after, before"],
	["u", "next request of the user"], ["e", "next failed result"], ["b", "where the folded part ends"],
	["1 to 6", "only one state"], ["p h z", "pin, hide, undo: with the price first"], ["Esc", "close"],
	["g h", "all sessions"], ["g u", "usage"], ["?", "these keys"],
];
const THEMES = ["auto", "light", "dark"];

export class App {
	constructor() {
		this.main = el("main", { tabindex: -1 });
		this.title = el("div", { class: "title" });
		this.live = el("span", { class: "live", title: "Secrets are masked, and long texts are cut" }, "saved file");
		this.nav = el("nav", { "aria-label": "Views of this session" });
		const label = "Search";
		this.search = el("input", { type: "search", placeholder: `${label}  ( / )`, "aria-label": label });
		this.keys = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"),
			el("dl", {}, KEYS.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)])),
			el("form", { method: "dialog" }, el("button", {}, "Close")));
		this.theme = el("button", { class: "theme", onclick: () => this.nextTheme() });
		/** @type {Screen | null} */ this.screen = null;
		this.path = "";
		this.prefix = "";
		this.mounts = 0;
		document.body.replaceChildren(
			el("header", { class: "top" },
				el("a", { class: "logo", href: "#/", "aria-label": "refold: all sessions" }, el("b", {}, "re"), "fold"),
				this.title, this.nav, this.live,
				el("form", { role: "search", onsubmit: (event) => this.find(event) }, this.search),
				el("button", { class: "theme", "aria-label": "Keys", title: "Keys (?)", onclick: () => this.keys.showModal() }, "?"),
				this.theme),
			this.main, this.keys,
		);
		this.showTheme();
		addEventListener("hashchange", () => this.route());
		addEventListener("keydown", (event) => this.key(event));
	}

	/** @returns {Route} */
	get address() {
		const [words, query] = location.hash.slice(1).split("?");
		const path = words.split("/").filter(Boolean).map(decodeURIComponent);
		const isInside = !inside || path[0] === "s" || path[0] === "find";
		return { path: isInside ? path : ["s", inside.id], query: Object.fromEntries(new URLSearchParams(query ?? "")) };
	}

	/**
	 * Goes to an address. With `keeps`, it takes the place of the one before.
	 * @param {Record<string, any>} [query] @param {boolean} [keeps]
	 */
	go(path, query = {}, keeps = false) {
		const given = Object.entries(query).filter(([, value]) => value || value === 0);
		const words = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
		const hash = `#${path}${words.size ? `?${words}` : ""}`;
		if (hash === location.hash) return;
		if (keeps) history.replaceState(null, "", hash);
		else history.pushState(null, "", hash);
		this.route();
	}

	reload() {
		this.path = "?";
		this.route();
	}

	async route() {
		const route = this.address;
		const path = route.path.join("/");
		if (this.screen?.update && this.path === path) return this.screen.update(route);
		const mount = ++this.mounts;
		this.path = path;
		this.screen?.leave?.();
		this.screen = null;
		this.live.hidden = !inside;
		refill(this.title);
		refill(this.main, el("p", { class: "waiting" }, "…"));
		try {
			const screen = await this.made(route);
			if (mount !== this.mounts) return screen.leave?.();
			this.screen = screen;
			refill(this.main, screen.node);
			this.showHeading(screen, route);
			screen.update?.(route);
		} catch (error) {
			if (mount === this.mounts) this.showFailure(error);
		}
	}

	/** @param {Route} route @returns {Promise<Screen>} */
	async made({ path, query }) {
		const [first, id, view] = path;
		if (first === "s" && id) {
			if (view === "bill") return billScreen(id);
			if (view === "window") return windowScreen(id, query);
			if (view === "ledger") return ledgerScreen(id);
			return SessionScreen.opened(this, id);
		}
		if (first === "find") {
			this.search.value = query.q ?? "";
			return searchScreen(query.q ?? "");
		}
		if (first === "usage") return UsageScreen.opened(this);
		return HomeScreen.opened(this);
	}

	showHeading(screen, { path }) {
		const { title, words, cost } = screen.heading;
		document.title = title ? `${title} · refold` : "refold";
		refill(this.title, el("h1", { title }, title), words && quiet(words, "span"),
			cost !== undefined && cost !== null && el("b", {}, dollars(cost)));
		const [first, id, view] = path;
		const views = [["", "Session"], ["bill", "Bill"], ["window", "Window"], ["ledger", "Ledger"]];
		const places = [["", "Sessions"], ["usage", "Usage"]];
		refill(this.nav, first === "s" || inside
			? views.map(([name, label]) => tab(`#/s/${id ?? inside.id}${name && `/${name}`}`, label, (view ?? "") === name))
			: places.map(([name, label]) => tab(`#/${name}`, label, (first ?? "") === name)));
	}

	showLive(isLive) {
		this.live.hidden = false;
		this.live.textContent = isLive ? "live" : "not connected";
		this.live.classList.toggle("away", !isLive);
	}

	showFailure(error) {
		const heading = error.status === 401 ? "This browser has not been admitted" : "That did not work";
		refill(this.title, el("h1", {}, "refold"));
		refill(this.main, el("section", { class: "empty" }, el("h2", {}, heading),
			el("p", {}, error.message), error.hint && quiet(error.hint)));
	}

	find(event) {
		event.preventDefault();
		const words = this.search.value.trim();
		if (!words) return;
		this.go("/find", { q: words });
	}

	key(event) {
		const target = event.target;
		if (event.ctrlKey || event.metaKey || event.altKey || this.keys.open) return;
		if (event.key === "Escape" && target === this.search) return this.search.blur();
		const isText = target.matches("input:not([type=range]), textarea, select");
		if (isText) return;
		const before = this.prefix;
		this.prefix = "";
		if (event.key === "/") this.search.focus();
		else if (event.key === "?") this.keys.showModal();
		else if (before === "g" && event.key === "h") this.go("/");
		else if (before === "g" && event.key === "u") this.go("/usage");
		else if (event.key === "g") this.prefix = "g";
		else if (!this.screen?.key?.(event)) return;
		event.preventDefault();
	}

	nextTheme() {
		const next = THEMES[(THEMES.indexOf(this.chosenTheme) + 1) % THEMES.length];
		localStorage.setItem("theme", next);
		this.showTheme();
		this.screen?.update?.(this.address);
	}

	get chosenTheme() {
		return localStorage.getItem("theme") ?? "auto";
	}

	showTheme() {
		const theme = this.chosenTheme;
		if (theme === "auto") delete document.documentElement.dataset.theme;
		else document.documentElement.dataset.theme = theme;
		this.theme.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme] ?? "◐";
		this.theme.setAttribute("aria-label", `Colors: ${theme}`);
		this.theme.title = `Colors: ${theme}`;
	}
}

/** @param {boolean} isHere */
function tab(href, label, isHere) {
	return el("a", { href, "aria-current": isHere ? "page" : null }, label);
}

/** Exchanges the key in the address for a cookie, and takes it out of the address at once. */
async function enter() {
	const given = new URLSearchParams(location.hash.slice(1));
	const key = given.get("key");
	if (key === null) return;
	const session = given.get("s");
	history.replaceState(null, "", session ? `#/s/${encodeURIComponent(session)}` : "#/");
	await send("/enter", { key });
}

const entering = enter();
const app = new App();
entering.then(() => app.route(), (error) => app.showFailure(error));
