/**
 * All sessions, with their projects, sizes and costs; and the usage by day, project and model.
 */

import { count, day, dollars, draw, el, figure, percent, refill, short, table, time } from "./dom.js";
import { ask, follow } from "./server.js";


const DAYS_DRAWN = 60;

/** The cost of some rows; null if none has a known one. @param {any[]} rows */
function costOf(rows) {
	const known = rows.filter((row) => row.cost !== null && row.cost !== undefined);
	return known.length ? known.reduce((sum, row) => sum + row.cost, 0) : null;
}

export class HomeScreen {
	constructor(app, overview) {
		this.app = app;
		this.overview = overview;
		this.heading = { title: "", words: "what your agents saw, what their models read" };
		this.figures = el("div", { class: "figures" });
		this.days = el("div", { class: "days" });
		this.projects = el("div", { class: "chips", role: "group", "aria-label": "Project" });
		this.list = el("div");
		this.node = el("div", { class: "home" },
			el("div", { class: "summary" }, this.figures, this.days), this.projects, this.list);
		/** @type {any[] | null} */ this.usage = null;
		this.project = "";
		this.sort = "";
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
		this.overview = await ask("/api/overview");
		this.usage = null;
		this.update(this.app.address);
	}

	update({ query }) {
		this.project = query.project ?? "";
		this.sort = query.sort ?? "";
		const { sessions, store } = this.overview;
		if (!sessions.length) return this.drawEmpty(store);
		const shown = sessions.filter((one) => !this.project || one.project === this.project);
		this.drawFigures(shown);
		this.drawProjects(sessions);
		this.drawList(shown);
		this.drawDays(shown);
	}

	drawEmpty(store) {
		refill(this.node, el("section", { class: "empty" }, el("h2", {}, "No sessions yet"),
			el("p", {}, "In a terminal, this finds the sessions of agents on this machine:"),
			el("pre", { class: "command" }, "refold import --scan"),
			el("p", { class: "quiet" }, `The store is ${store}.`)));
	}

	drawFigures(shown) {
		const sum = (name) => shown.reduce((total, one) => total + (one[name] ?? 0), 0);
		refill(this.figures, [
			[count(shown.length), shown.length === 1 ? "session" : "sessions"],
			[short(sum("messages")), "messages"],
			[this.usage ? short(this.usage.filter((row) => shown.some((one) => one.id === row.id))
				.reduce((total, row) => total + row.tokens, 0)) : "…", "tokens billed"],
			[dollars(costOf(shown)), "in all"],
		].map(([value, name]) => figure(value, name)));
	}

	drawProjects(sessions) {
		const names = [...new Set(sessions.map((one) => one.project).filter(Boolean))];
		const chip = (name, label) =>
			el("button", {
				class: "chip", "aria-pressed": String(this.project === name),
				onclick: () => {
					this.app.go("/", { project: name || null, sort: this.sort || null }, true);
					this.update(this.app.address);
				},
			}, label);
		refill(this.projects, names.length > 1 ? [chip("", "All projects"), names.map((name) => chip(name, name))] : null);
	}

	drawList(shown) {
		const orders = {
			messages: (one) => one.messages ?? 0,
			page: (one) => (one.window ? one.tokens / one.window : 0),
			cost: (one) => one.cost ?? -1,
			cached: (one) => this.cachedOf(one)[0] / Math.max(1, this.cachedOf(one)[1]),
		};
		const order = orders[this.sort];
		const sorted = order ? [...shown].sort((one, other) => order(other) - order(one)) : shown;
		const head = (name, label, kind = "number") =>
			el("th", { scope: "col", class: kind, "aria-sort": this.sort === name ? "descending" : null },
				el("button", {
					class: "plain",
					onclick: () => {
						this.app.go("/", { project: this.project || null, sort: name || null }, true);
						this.update(this.app.address);
					},
				}, label));
		refill(this.list, el("table", { class: "sessions" },
			el("caption", { class: "unseen" }, "Sessions"),
			el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Session"), el("th", { scope: "col" }, "From"),
				head("messages", "Messages"), head("page", "On the page", ""), head("cached", "Cached"),
				head("cost", "Cost"), head("", "Last"))),
			el("tbody", {}, sorted.map((one) => this.row(one)))));
	}

	row(one) {
		if (one.damaged) {
			return el("tr", { class: "damaged" }, el("td", { colspan: 6 }, el("b", {}, one.title),
				el("small", {}, `${one.damaged}`)), el("td", { class: "number" }, day(one.updated_ms)));
		}
		const share = one.window ? one.tokens / one.window : 0;
		const level = share >= 0.8 ? "full" : share > 0.5 ? "half" : "";
		const [cached, input] = this.cachedOf(one);
		return el("tr", {},
			el("td", {}, el("a", { href: `#/s/${one.id}` }, one.title || "Untitled"),
				el("small", {}, [one.project, one.model, one.part_of ? "sub-agent" : one.parent && "fork"].filter(Boolean).join(" · "))),
			el("td", {}, el("span", { class: "tag" }, one.agent)),
			el("td", { class: "number" }, one.messages === null ? "–" : count(one.messages)),
			el("td", { title: one.peak ? `at most ${count(one.peak)} tokens` : null }, one.tokens === null ? "–" : [
				el("span", { class: `meter ${level}`, "aria-hidden": "true" },
					el("i", { style: { width: `${Math.min(100, 100 * share)}%` } })),
				el("small", {}, `${short(one.tokens)} of ${short(one.window)}`)]),
			el("td", { class: "number" }, input ? percent(cached, input) : "–"),
			el("td", { class: "number" }, one.calls ? dollars(one.cost) : "–"),
			el("td", { class: "number" }, day(one.updated_ms), el("small", {}, time(one.updated_ms))));
	}

	/** The tokens read from the cache, and all tokens read. */
	cachedOf(one) {
		const own = (this.usage ?? []).filter((row) => row.id === one.id);
		return [sum(own, "cached"), sum(own, "input")];
	}

	/** The cost per day, once the bills are read. */
	async drawDays(shown) {
		if (!this.usage) {
			const { days } = await ask("/api/usage");
			this.usage = days;
			return this.update(this.app.address);
		}
		const ids = new Set(shown.map((one) => one.id));
		const rows = (this.usage ?? []).filter((row) => ids.has(row.id));
		refill(this.days, rows.length ? dayChart(rows) : null);
	}
}

/** Bars for days; a gap without usage is cut to what is drawn. @param {any[]} rows */
function dayChart(rows) {
	/** @type {Map<string, number>} */
	const byDay = new Map();
	for (const row of rows) byDay.set(row.day, (byDay.get(row.day) ?? 0) + (row.cost ?? 0));
	const days = [...byDay].sort(([one], [other]) => (one < other ? -1 : 1)).slice(-DAYS_DRAWN);
	const most = Math.max(0.000001, ...days.map(([, cost]) => cost));
	const wide = Math.min(26, 560 / Math.max(1, days.length));
	const width = Math.max(64, wide * days.length);
	return el("a", { href: "#/usage", title: "Usage" },
		draw("svg", { viewBox: `0 0 ${width} 62`, width, height: 62, role: "img",
			"aria-label": `Cost per day, at most ${dollars(most)}` },
			days.map(([name, cost], at) =>
				draw("rect", { class: "day", x: at * wide + 1, width: Math.max(1, wide - 2), y: 48 - (46 * cost) / most,
					height: Math.max(1, (46 * cost) / most) }, draw("title", {}, `${name}: ${dollars(cost)}`))),
			[0, days.length - 1].filter((at, place) => place === 0 || (at > 3)).map((at) =>
				draw("text", { class: "name", x: at ? width : 0, y: 60, "text-anchor": at ? "end" : "start" }, days[at][0].slice(5)))));
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
		const by = query.by ?? "day";
		const names = {
			day: (row) => row.day,
			project: (row) => this.sessions.get(row.id)?.project || "no project",
			model: (row) => row.model || "unknown model",
		};
		const nameOf = names[by] ?? names.day;
		/** @type {Map<string, any[]>} */
		const groups = new Map();
		for (const row of this.days) groups.set(nameOf(row), [...(groups.get(nameOf(row)) ?? []), row]);
		const rows = [...groups].map(([name, list]) => ({
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
				Object.keys(names).map((name) =>
					el("button", { class: "chip", "aria-pressed": String(by === name), onclick: () => {
						this.app.go("/usage", { by: name }, true);
						this.update(this.app.address);
					} }, `by ${name}`))),
			rows.length
				? table("Usage", [by, ">sessions", ">calls", ">tokens", ">cost"], rows.map((row) => [
						row.name, count(row.sessions), count(row.calls), count(row.tokens), dollars(row.cost)]))
				: el("p", { class: "quiet" }, "No call was billed: the programs that wrote these sessions wrote no usage."));
	}
}

/** @param {any[]} rows */
function sum(rows, name) {
	return rows.reduce((total, row) => total + (row[name] ?? 0), 0);
}

