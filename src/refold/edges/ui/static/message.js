/**
 * The blocks of one message in a readable form: commands as commands, changes as diffs, files as
 * code. Whatever has no form of its own is shown as it is.
 */

import { count, el } from "./dom.js";

const LINES_SHOWN = 400;
const COMMANDS = ["command", "cmd"];
const PATHS = ["file_path", "path", "notebook_path"];
const PATCHES = ["patch", "diff"];
const TEXTS = ["content", "file_text", "new_source", "prompt", "plan", "text"];

/**
 * @param {any[]} blocks
 * @returns {HTMLElement[]}
 */
export function drawBlocks(blocks) {
	return blocks.map(drawBlock);
}

function drawBlock(block) {
	switch (block.type) {
		case "call":
			return el("section", { class: "block call" }, el("h4", {}, block.name), drawArguments(block.arguments));
		case "result":
			return el(
				"section",
				{ class: `block${block.failed ? " failed" : ""}` },
				block.failed && el("h4", {}, "failed"),
				block.artifact && el("p", { class: "quiet" }, `all of it: artifact ${block.artifact}`),
				block.media ? el("p", { class: "quiet" }, `${block.media} pictures`) : null,
				drawText(block.text, block.left_out),
			);
		case "thinking":
		case "opaque":
			return block.text
				? el("section", { class: `block ${block.type}` }, drawText(block.text, block.left_out))
				: el("p", { class: "quiet" }, "(reasoning that only its provider can read)");
		case "media":
			return el("p", { class: "quiet" }, `(${block.text})`);
		default:
			return el("section", { class: "block" }, drawText(block.text ?? "", block.left_out));
	}
}

function drawArguments(given) {
	if (typeof given !== "object" || given === null || Array.isArray(given)) {
		return drawCode(typeof given === "string" ? given : JSON.stringify(given, null, 2));
	}
	const rest = { ...given };
	/** @type {HTMLElement[]} */
	const parts = [];
	for (const name of PATHS) {
		if (typeof rest[name] === "string") parts.push(el("p", { class: "path" }, rest[name]));
		else continue;
		delete rest[name];
	}
	for (const name of COMMANDS) {
		if (rest[name] === undefined) continue;
		const words = rest[name];
		parts.push(el("pre", { class: "command" }, Array.isArray(words) ? words.join(" ") : String(words)));
		delete rest[name];
	}
	const edits = Array.isArray(rest.edits) ? rest.edits : [rest];
	if (edits.every((one) => typeof one?.old_string === "string" && typeof one.new_string === "string")) {
		for (const one of edits) parts.push(drawChange(one.old_string, one.new_string));
		delete rest.edits;
		delete rest.old_string;
		delete rest.new_string;
	}
	for (const [name, value] of Object.entries(rest)) {
		if (typeof value === "string" && (PATCHES.includes(name) || isPatch(value))) {
			parts.push(drawPatch(value));
		} else if (typeof value === "string" && (TEXTS.includes(name) || value.includes("\n"))) {
			parts.push(el("p", { class: "quiet" }, name), drawCode(value));
		} else {
			const shown = typeof value === "string" ? value : JSON.stringify(value);
			parts.push(el("p", { class: "argument" }, el("span", { class: "quiet" }, `${name} `), shown));
		}
	}
	return el("div", {}, parts);
}

/** */
function isPatch(text) {
	return /^(\*\*\* Begin Patch|diff --git|--- [^\n]+\n\+\+\+ )/m.test(text.slice(0, 2_000));
}

/** The two sides of a change, with the lines that they share as context. */
function drawChange(before, after) {
	const old = before.split("\n");
	const now = after.split("\n");
	let first = 0;
	while (first < Math.min(old.length, now.length) && old[first] === now[first]) first++;
	let last = 0;
	const most = Math.min(old.length, now.length) - first;
	while (last < most && old.at(-1 - last) === now.at(-1 - last)) last++;
	const lines = [
		...old.slice(0, first).map((line) => ` ${line}`),
		...old.slice(first, old.length - last).map((line) => `-${line}`),
		...now.slice(first, now.length - last).map((line) => `+${line}`),
		...old.slice(old.length - last).map((line) => ` ${line}`),
	];
	return drawPatch(lines.join("\n"));
}

/** */
function drawPatch(text) {
	const kinds = { "+": "added", "-": "removed", "@": "place", "*": "place" };
	return long(text.split("\n"), (line) => {
		const kind = kinds[/** @type {"+"} */ (line[0])];
		return el("span", { class: `line ${kind ?? ""}` }, `${line}\n`);
	});
}

/** */
function drawCode(text) {
	return long(text.split("\n"), (line) => document.createTextNode(`${line}\n`));
}

/**
 * Text as it came; a unified diff in it is drawn as one.
 * @param {number} [leftOut]
 */
function drawText(text, leftOut) {
	const body = isPatch(text) ? drawPatch(text) : drawCode(text);
	if (!leftOut) return body;
	return el("div", {}, body, el("p", { class: "quiet" }, `… ${count(leftOut)} more characters: refold show ID SEQ`));
}

/**
 * Lines in a block; of many, the first, and the rest behind a button.
 * @param {string[]} lines @param {(line: string) => Node} drawLine
 */
function long(lines, drawLine) {
	const node = el("pre", {}, lines.slice(0, LINES_SHOWN).map(drawLine));
	if (lines.length <= LINES_SHOWN) return node;
	const more = el(
		"button",
		{
			class: "plain",
			onclick: () => {
				more.remove();
				node.append(...lines.slice(LINES_SHOWN).map(drawLine));
			},
		},
		`Show ${count(lines.length - LINES_SHOWN)} more lines`,
	);
	return el("div", {}, node, more);
}
