/**
 * All sessions, with projects, sizes and costs; and the usage by day, project and model.
 */

import { count, day, dollars, draw, el, figure, number, percent, refill, short, table, time, toggle, quiet } from "./dom.js";
import { ask, follow } from "./server.js";

const DAYS_DRAWN = 60, DAY_MS = 86_400_000;
const PERIODS = { "": "All time", 30: "30 days", 7: "7 days" };

/** @param {any[]} rows */
function sum(rows, name) {
	return rows.reduce((total, row) => total + (row[name] ?? 0), 0);
}

/** The cost of some rows; null if none has a known one. @param {any[]} rows */
function costOf(rows) {
	return rows.some((row) => typeof row.cost === "number") ? sum(rows, "cost") : null;
}

export class HomeScreen {
	constructor(app, overview) {
		this.app = app;
		this.overview = overview;
		this.heading = { title: "", words: "what your agents saw, what their models read" };
		this.figures = el("div", { class: "figures" });
		this.days = el("div", { class: "days" });
		this.projects = el("div", { class: "chips", role: "group", "aria-label": "Project and time" });
		this.list = el("div");
		this.node = el("div", { class: "home" },
			el("div", { class: "summary" }, this.figures, this.days), this.projects, this.list);
		/** @type {Map<string, any[]> | null} the bills of each session */ this.usage = null;
		/** @type {Record<string, string>} */ this.query = {};
		/** @type {Record<string, number> | null} */ this.heads = null;
		this.end = follow((heads) => this.follow(heads));
	}

	static async opened(app) {
		return new HomeScreen(app, await ask("/api/overview"));
	}

	leave() {
		this.end();
	}

	async follow(heads) {
		this.app.showLive(heads !== null);
		const before = this.heads;
		this.heads = heads;
		if (!before || !heads) return;
		if (!this.overview.sessions.length) return this.app.reload();
		this.overview = await ask("/api/overview");
		this.usage = null;
		this.update(this.app.address);
	}

	async update({ query }) {
		this.query = query;
		const { sessions } = this.overview;
		if (!sessions.length) return this.drawEmpty();
		const since = query.days ? Date.now() - query.days * DAY_MS : 0;
		const shown = sessions.filter((one) =>
			(!query.project || one.project === query.project) && one.updated_ms >= since);
		const bills = shown.flatMap((one) => this.usage?.get(one.id) ?? []);
		refill(this.figures,
			figure(count(shown.length), shown.length === 1 ? "session" : "sessions"),
			figure(short(sum(shown, "messages")), "messages"),
			figure(this.usage ? short(sum(bills, "tokens")) : "…", "tokens billed"),
			figure(dollars(costOf(shown)), "in all"));
		this.drawChoices(sessions);
		this.drawList(shown);
		refill(this.days, bills.length ? dayChart(bills) : null);
		if (this.usage) return;
		this.usage = Map.groupBy((await ask("/api/usage")).days, (row) => row.id);
		return this.update(this.app.address);
	}

	drawEmpty() {
		const { store, found } = this.overview;
		const files = found.map((one) => `${number(one.files, "file")} of ${one.agent}`).join(", ");
		refill(this.node, el("section", { class: "empty" }, el("h2", {}, "No sessions yet"),
			el("p", {}, found.length ? `On this machine: ${files}. In a terminal, this reads them:`
				: "No agent's sessions were found on this machine. In a terminal, this looks again:"),
			el("pre", { class: "command" }, found.length ? "refold import --scan --yes" : "refold import --scan"),
			quiet(`The store is ${store}.`)));
	}

	choose(name, value) {
		this.app.go("/", { ...this.query, [name]: value }, true);
	}

	drawChoices(sessions) {
		const names = [...new Set(sessions.map((one) => one.project).filter(Boolean))];
		const chip = (name, value, label) => toggle(label, (this.query[name] ?? "") === value, () => this.choose(name, value));
		refill(this.projects,
			names.length > 1 ? [chip("project", "", "All projects"), names.map((name) => chip("project", name, name))] : null,
			el("span", { class: "gap" }),
			["", "30", "7"].map((value) => chip("days", value, PERIODS[value])));
	}

	drawList(shown) {
		const { sort } = this.query;
		const orders = {
			messages: (one) => one.messages ?? 0,
			page: (one) => (one.window ? one.tokens / one.window : 0),
			cost: (one) => one.cost ?? -1,
			cached: (one) => this.cachedOf(one),
		};
		const order = orders[sort];
		const sorted = order ? [...shown].sort((one, other) => order(other) - order(one)) : inFamilies(shown);
		const parts = Map.groupBy(shown, (one) => one.part_of);
		const head = (name, label, kind = "number") =>
			el("th", { scope: "col", class: kind, "aria-sort": (sort ?? "") === name ? "descending" : null },
				el("button", { class: "plain", onclick: () => this.choose("sort", name) }, label));
		refill(this.list, shown.length ? el("table", { class: "sessions" },
			el("caption", { class: "unseen" }, "Sessions"),
			el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Session"), el("th", { scope: "col" }, "From"),
				head("messages", "Messages"), head("page", "On the page", ""), head("cached", "Cached"),
				head("cost", "Cost"), head("", "Last"))),
			el("tbody", {}, sorted.map((one) => this.row(one, parts.get(one.id) ?? []))))
			: quiet("No session was held in this time."));
	}

	/** @param {any[]} parts its sub-agents */
	row(one, parts) {
		if (one.damaged) {
			return el("tr", { class: "damaged" }, el("td", { colspan: 6 }, el("b", {}, one.title), el("small", {}, one.damaged),
				el("small", {}, `refold verify ${one.id}`)), el("td", { class: "number" }, day(one.updated_ms)));
		}
		const share = one.window ? one.tokens / one.window : 0;
		const level = share >= 0.8 ? "full" : share > 0.5 ? "half" : "";
		const cached = this.cachedOf(one);
		const about = [one.project, one.model, one.part_of ? "sub-agent" : one.parent && "fork",
			parts.length ? `+ ${number(parts.length, "sub-agent")}, ${dollars(costOf(parts))}` : ""];
		return el("tr", { class: one.part_of ? "part" : null },
			el("td", {}, el("a", { href: `#/s/${one.id}` }, one.title || "Untitled"),
				el("small", {}, about.filter(Boolean).join(" · "))),
			el("td", {}, el("span", { class: "tag" }, one.agent)),
			el("td", { class: "number" }, one.messages === null ? "–" : count(one.messages)),
			el("td", {}, one.tokens === null ? "–" : [
				el("span", { class: `meter ${level}`, "aria-hidden": "true" },
					el("i", { style: { width: `${Math.min(100, 100 * share)}%` } })),
				el("small", {}, `${short(one.tokens)} of ${short(one.window)}`,
					one.peak > one.tokens && `, peak ${percent(one.peak, one.window)}`)]),
			el("td", { class: "number" }, cached < 0 ? "–" : percent(cached, 1)),
			el("td", { class: "number" }, one.calls ? dollars(one.cost) : "–"),
			el("td", { class: "number" }, day(one.updated_ms), el("small", {}, time(one.updated_ms))));
	}

	/** The share read from the cache; -1 if nothing was billed. */
	cachedOf(one) {
		const own = this.usage?.get(one.id) ?? [];
		const input = sum(own, "input");
		return input ? sum(own, "cached") / input : -1;
	}
}

/** Sub-agents after the session that called them. @param {any[]} rows @returns {any[]} */
function inFamilies(rows) {
	const ids = new Set(rows.map((one) => one.id));
	const parts = Map.groupBy(rows.filter((one) => ids.has(one.part_of)), (one) => one.part_of);
	const family = (one) => [one, ...(parts.get(one.id) ?? []).flatMap(family)];
	return rows.filter((one) => !ids.has(one.part_of)).flatMap(family);
}

/** Bars for days; days without usage have none. @param {any[]} rows */
function dayChart(rows) {
	const days = [...Map.groupBy(rows, (row) => row.day)].map(([name, list]) => ({ name, cost: sum(list, "cost") }))
		.sort((one, other) => (one.name < other.name ? -1 : 1)).slice(-DAYS_DRAWN);
	const most = Math.max(0.000001, ...days.map((one) => one.cost));
	const wide = Math.min(26, 560 / days.length);
	const width = Math.max(64, wide * days.length);
	const label = (at, x, anchor) => draw("text", { class: "name", x, y: 60, "text-anchor": anchor }, days[at].name.slice(5));
	return el("a", { href: "#/usage", title: "Usage" },
		draw("svg", { viewBox: `0 0 ${width} 62`, width, height: 62, role: "img",
			"aria-label": `Cost per day, at most ${dollars(most)}` },
			days.map(({ name, cost }, at) => {
				const height = Math.max(1, (46 * cost) / most);
				return draw("rect", { class: "day", x: at * wide + 1, width: Math.max(1, wide - 2), y: 48 - height, height },
					draw("title", {}, `${name}: ${dollars(cost)}`));
			}),
			label(0, 0, "start"), days.length > 4 && label(days.length - 1, width, "end")));
}

export class UsageScreen {
	constructor(app, days, sessions) {
		this.app = app;
		this.days = days;
		this.sessions = new Map(sessions.map((one) => [one.id, one]));
		this.heading = { title: "Usage", words: "as billed, by day (UTC)" };
		this.node = el("div", { class: "home" });
	}

	static async opened(app) {
		const [{ days }, { sessions }] = await Promise.all([ask("/api/usage"), ask("/api/overview")]);
		return new UsageScreen(app, days, sessions);
	}

	update({ query }) {
		const names = {
			day: (row) => row.day,
			project: (row) => this.sessions.get(row.id)?.project || "no project",
			model: (row) => row.model || "unknown model",
		};
		const by = query.by in names ? query.by : "day";
		const rows = [...Map.groupBy(this.days, names[by])].map(([name, list]) => ({
			name, calls: sum(list, "calls"), tokens: sum(list, "tokens"), cost: costOf(list),
			sessions: new Set(list.map((row) => row.id)).size,
		}));
		if (by === "day") rows.sort((one, other) => (one.name < other.name ? 1 : -1));
		else rows.sort((one, other) => (other.cost ?? 0) - (one.cost ?? 0));
		refill(this.node,
			el("div", { class: "summary" }, el("div", { class: "figures" },
				figure(dollars(costOf(this.days)), "in all"),
				figure(short(sum(this.days, "tokens")), "tokens"),
				figure(count(sum(this.days, "calls")), "calls")),
				el("div", { class: "days" }, this.days.length ? dayChart(this.days) : null)),
			el("div", { class: "chips", role: "group", "aria-label": "By" },
				Object.keys(names).map((name) => toggle(`by ${name}`, by === name, () => this.app.go("/usage", { by: name }, true)))),
			rows.length
				? table("Usage", [by, ">sessions", ">calls", ">tokens", ">cost"], rows.map((row) => [
						row.name, count(row.sessions), count(row.calls), count(row.tokens), dollars(row.cost)]))
				: quiet("No call was billed: the programs that wrote these sessions wrote no usage."));
	}
}
