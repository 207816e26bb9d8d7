/**
 * One message: its state at this turn, why it is so, and the message as it came.
 */

import { actButton } from "./acts.js";
import { copy, count, day, el, number, panelHead, refill, time, quiet } from "./dom.js";
import { drawBlocks } from "./message.js";
import { ask, place } from "./server.js";
import { Cursor, ERASED, HIDDEN, QUOTED, REWOUND, SHORTENED, STATES, WHOLE, isOnPage } from "./states.js";

/** @typedef {import("./session.js").SessionScreen} SessionScreen */

/** @param {HTMLElement} panel @param {SessionScreen} screen */
export async function messagePanel(panel, screen, chosen) {
	const { session, id } = screen;
	const seq = session.seqs[chosen];
	const role = session.roleOf(chosen);
	const state = screen.cursor.state(chosen);
	const why = el("ol", { class: "why" });
	const body = el("div", { class: "original" }, quiet("…"));
	const asShown = el("div");
	const links = related(screen, chosen);
	const box = el("div", { "aria-live": "polite" });
	const isPinned = session.pins.has(seq);
	refill(
		panel,
		panelHead(`#${seq} ${role}, ${number(session.tokens[chosen], "token")}`, () => screen.closePanel()),
		el("p", { class: "state-line" }, el("i", { class: `dot ${STATES[state]}` }),
			`${screen.isLatest ? "Now" : "At this turn"}: ${sentence(screen, chosen, state)}`),
		el("p", { class: "buttons" },
			copyButton(`#${seq}`, "Copy handle"),
			copyButton(`refold show ${id} ${seq}`, "Copy command"),
			links,
			actButton(screen, box, isPinned ? "Unpin" : "Pin", { act: isPinned ? "unpin" : "pin", seq }),
			isOnPage(new Cursor(session, session.head).state(chosen)) && actButton(screen, box, "Hide", { act: "hide", seq }),
			actButton(screen, box, "Go back to it", { act: "restore", seq })),
		box,
		asShown,
		el("h3", {}, "Why"),
		why,
		el("h3", {}, "As it came"),
		body,
	);
	if (state === SHORTENED) showShortened(asShown, id, seq, screen.cursor.at);
	showReasons(why, screen, seq);
	showOriginal(body, id, seq, false);
}

/** @param {SessionScreen} screen */
function sentence(screen, chosen, state) {
	const { session, cursor } = screen;
	const cover = cursor.cover(session.seqs[chosen]);
	const one = session.standins[cover];
	const instead = one ? ` ${count(one.tokens)} tokens stand for #${one.first} to #${one.last}.` : "";
	switch (state) {
		case WHOLE: return "the model reads it as it came.";
		case SHORTENED: return "the model reads it shortened.";
		case QUOTED: return `the model reads words of it.${instead}`;
		case HIDDEN: return `the model does not read it.${instead}`;
		case REWOUND: return "it was rewound: a restore or an undo went back before it.";
		case ERASED: return "its text was erased for good; its place is still there.";
		default: return "it has not been said yet.";
	}
}

/** The call of a result, or the results of a call. @param {SessionScreen} screen */
function related(screen, chosen) {
	const { session } = screen;
	const caller = session.pairs[chosen];
	const linked = caller >= 0 ? [caller] : session.pairs.flatMap((pair, at) => (pair === chosen ? [at] : []));
	return linked.slice(0, 6).map((other) =>
		el("button", { onclick: () => screen.pick(other) },
			`${caller >= 0 ? "Its call" : "Its result"} #${session.seqs[other]}`));
}

function copyButton(text, label) {
	return el("button", { onclick: (event) => copy(text, event.target) }, label);
}

async function showShortened(node, id, seq, at) {
	const value = await ask(`${place(id)}/shown/${seq}`, { at });
	refill(node, el("h3", {}, "As the page shows it"), drawBlocks(value.blocks));
}

/** @param {SessionScreen} screen */
async function showReasons(node, screen, seq) {
	try {
		const traces = await ask(`${place(screen.id)}/why/${seq}`);
		refill(node, traces.map((one) =>
			el("li", { class: one.live ? null : "undone" },
				`${one.action}${one.by ? ` by ${one.by}` : ""}${one.reason ? `: ${one.reason}` : ""} `,
				quiet(`#${one.seq}, ${day(one.at_ms)} ${time(one.at_ms)}${one.live ? "" : ", no longer in effect"}`, "span"),
				one.batch && screen.session.compactions.some((each) => each.id === one.batch)
					? el("button", { class: "plain", onclick: () => screen.open(one.batch) }, "show it") : null)));
		if (!traces.length) node.replaceWith(quiet("Nothing ever happened to it."));
	} catch (error) {
		refill(node, el("li", {}, String(error.message)));
	}
}

async function showOriginal(node, id, seq, secrets) {
	try {
		const value = await ask(`${place(id)}/message/${seq}`, secrets ? { secrets: 1 } : {});
		refill(node,
			quiet(`${day(value.at_ms)} ${time(value.at_ms)}${value.by ? `, by ${value.by}` : ""}`),
			value.has_secrets && el("p", { class: "masked" }, "Secrets are masked. ",
				el("button", { class: "plain", onclick: () => showOriginal(node, id, seq, true) }, "Show them")),
			drawBlocks(value.blocks));
	} catch (error) {
		refill(node, el("p", { class: "error" }, error.message));
	}
}
