/**
 * The blocks of one message in a readable form: commands as commands, changes as diffs, files as
 * code. Whatever has no form of its own is shown as it is.
 */

import { count, el, firstOf, number, quiet } from "./dom.js";

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
			return el("section", { class: `block${block.failed ? " failed" : ""}` },
				block.failed && el("h4", {}, "failed"),
				block.artifact && quiet(`all of it: artifact ${block.artifact}`),
				block.media ? quiet(number(block.media, "picture")) : null,
				drawText(block.text, block.left_out));
		case "thinking":
		case "opaque":
			return block.text
				? el("section", { class: `block ${block.type}` }, drawText(block.text, block.left_out))
				: quiet("(reasoning that only its provider can read)");
		case "media":
			return quiet(`(${block.text})`);
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
	const take = (names, drawOne) => {
		for (const name of names) {
			if (rest[name] === undefined) continue;
			parts.push(drawOne([rest[name]].flat().join(" ")));
			delete rest[name];
		}
	};
	take(PATHS, (path) => el("p", { class: "path" }, path));
	take(COMMANDS, (words) => el("pre", { class: "command" }, words));
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
			parts.push(quiet(name), drawCode(value));
		} else {
			const shown = typeof value === "string" ? value : JSON.stringify(value);
			parts.push(el("p", { class: "argument" }, quiet(`${name} `, "span"), shown));
		}
	}
	return el("div", {}, parts);
}

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

function drawPatch(text) {
	const kinds = { "+": "added", "-": "removed", "@": "place", "*": "place" };
	return long(text.split("\n"), (line) => {
		const kind = kinds[/** @type {"+"} */ (line[0])];
		return el("span", { class: `line ${kind ?? ""}` }, `${line}\n`);
	});
}

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
	return el("div", {}, body, quiet(`… ${count(leftOut)} more characters: refold show ID SEQ`));
}

/** Lines in a block. @param {string[]} lines @param {(line: string) => Node} drawLine */
function long(lines, drawLine) {
	return el("div", {}, firstOf(lines, LINES_SHOWN, drawLine, " lines", "pre"));
}
