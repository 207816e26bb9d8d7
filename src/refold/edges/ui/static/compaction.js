/**
 * One compaction: the page before and after it, what became of the messages, and what the model no
 * longer read.
 */

import { actButton } from "./acts.js";
import { count, day, dollars, el, firstOf, number, panelHead, refill, time, quiet } from "./dom.js";
import { Cursor, HIDDEN, NOT_YET, STATES } from "./states.js";

const LISTED = 50;
const PURPOSES = {
	"": "compaction", room: "removal of the oldest", hand: "hidden by hand", clear: "page cleared",
	adopt: "compaction from elsewhere", native: "compaction by the provider",
};

/** @typedef {import("./states.js").Session} Session */
/** @typedef {import("./states.js").Compaction} Compaction */
/** @typedef {import("./session.js").SessionScreen} SessionScreen */

/** The states before and after a compaction. @param {Session} session @param {Compaction} one */
export function compactionStates(session, one) {
	return { before: new Cursor(session, one.seq - 1), after: new Cursor(session, one.last) };
}

/**
 * @param {HTMLElement} panel @param {SessionScreen} screen @param {Compaction} one
 */
export function compactionPanel(panel, screen, one) {
	const { session } = screen;
	const at = session.compactions.indexOf(one);
	const { before, after } = compactionStates(session, one);
	/** @type {Map<string, {count: number, to: number}>} */
	const changes = new Map();
	/** @type {number[]} */
	const gone = [];
	for (let each = 0; each < session.said(one.last); each++) {
		const from = before.state(each);
		const to = after.state(each);
		if (from === to || from === NOT_YET) continue;
		const name = `${STATES[from]} → ${STATES[to]}`;
		changes.set(name, { count: (changes.get(name)?.count ?? 0) + 1, to });
		if (to === HIDDEN) gone.push(each);
	}
	gone.sort((left, right) => session.tokens[right] - session.tokens[left]);
	const broken = session.breaks.find((each) => each.seq > one.last && each.why.includes(`#${one.seq})`));
	const next = session.breaks.find((each) => each.seq > one.last);
	const paid = broken ?? (next && nextCall(session, one.last)?.seq === next.seq ? next : undefined);
	const most = Math.max(1, ...[...changes.values()].map((each) => each.count));
	const less = one.tokens_before ? (100 * (one.tokens_before - one.tokens_after)) / one.tokens_before : 0;
	const box = el("div", { "aria-live": "polite" });
	refill(
		panel,
		panelHead(`Compaction ${at + 1} of ${session.compactions.length}`, () => screen.closePanel()),
		el("p", { class: "buttons" },
			step(screen, at - 1, "Previous"), step(screen, at + 1, "Next"),
			el("button", { onclick: () => screen.goToStop(session.stopAt(one.last) + 1) }, "Turn after it"),
			one.live && actButton(screen, box, "Undo", { act: "undo", batches: [one.id] })),
		box,
		el("dl", {},
			el("dt", {}, "Page"),
			el("dd", {}, `${count(one.tokens_before)} to ${count(one.tokens_after)} tokens (${less.toFixed(1)} % less)`),
			el("dt", {}, "By"),
			el("dd", {}, `${one.strategy}: ${PURPOSES[one.purpose] ?? one.purpose}, ${number(one.edits, "edit")}`),
			one.reason ? [el("dt", {}, "Reason"), el("dd", {}, one.reason)] : null,
			el("dt", {}, "When"),
			el("dd", {}, `#${one.seq}, ${day(one.at_ms)} ${time(one.at_ms)}`),
			paid ? [el("dt", {}, "Cache"), el("dd", {},
				`the next call read ${count(paid.tokens)} tokens again: ${dollars(paid.cost)}`)] : null,
			el("dt", {}, "State"),
			el("dd", {}, one.live ? "in effect" : "undone")),
		el("h3", {}, "What became of the messages"),
		changes.size
			? el("table", { class: "bars-of" }, el("tbody", {}, [...changes].sort((x, y) => y[1].count - x[1].count).map(
					([name, each]) => el("tr", {}, el("th", { scope: "row" }, `${count(each.count)} ${name}`),
						el("td", {}, el("i", { class: STATES[each.to], style: { width: `${(100 * each.count) / most}%` } }))))))
			: quiet("No message changed its state."),
		el("h3", {}, `No longer read (${count(gone.length)}), largest first`),
		goneList(screen, gone),
	);
}

/** The first call after a place. @param {Session} session */
function nextCall(session, seq) {
	return session.calls.find((call) => call.seq > seq);
}

/** @param {SessionScreen} screen */
function step(screen, at, name) {
	const one = screen.session.compactions[at];
	return el("button", { disabled: !one, onclick: () => one && screen.open(one.id) }, name);
}

/** @param {SessionScreen} screen @param {number[]} gone */
function goneList(screen, gone) {
	const { session, texts } = screen;
	if (!gone.length) {
		const words = "Nothing: every message is still there, whole or in words of its own.";
		return quiet(words);
	}
	return el("div", { class: "gone" }, firstOf(gone, LISTED, (each) => {
		return el("li", {}, el("button", { class: "plain", onclick: () => screen.pick(each) },
			`#${session.seqs[each]} ${session.roleOf(each)}, ${count(session.tokens[each])} tok`), " ",
			el("span", { class: "quiet", "data-line": each }, texts.line(each) ?? ""));
	}));
}
