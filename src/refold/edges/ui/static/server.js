/**
 * Questions to the server, and the stream of its changes. In a saved file the answers are inside,
 * and nothing is sent.
 */

const HITS = 60, AROUND = 120; // of a search in a saved file

export class Failure extends Error {
	constructor(status, message, hint) {
		super(message);
		this.status = status;
		this.hint = hint;
	}
}

/**
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
async function answered(path, options) {
	let response;
	try {
		response = await fetch(path, options);
	} catch {
		throw new Failure(0, "refold ui does not answer", "is it still running in its terminal?");
	}
	const value = await response.json().catch(() => ({}));
	if (response.ok) return value;
	const { message, hint } = value.error ?? {};
	throw new Failure(response.status, message ?? `the server answered ${response.status}`, hint ?? "");
}

/** The answers inside a saved file; null where a server answers. @type {any} */
export const inside = await unpacked(document.getElementById("inside")?.textContent);

async function unpacked(text) {
	if (!text) return null;
	const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
	return new Response(stream).json();
}

/** An answer of a saved file. @param {any} query */
async function saved(path, query) {
	if (path === "/api/find") return found(query.q);
	const part = path.slice(place(inside.id).length + 1);
	const [kind, seq] = part.split("/");
	if (kind === "lines") return inside.lines.slice(query.from, query.from + query.count);
	if (kind === "why") return inside.traces.filter((one) => one.first <= seq && seq <= one.last);
	if (kind === "shown") return inside.shortened[seq].findLast(([at]) => at <= query.at)[1];
	return inside[part];
}

/** The messages of a saved file with all words of a search. @param {string} query */
function found(query) {
	const words = query.toLowerCase().split(/\s+/);
	const hits = [];
	for (const [path, { seq, at_ms, hidden, blocks }] of Object.entries(inside)) {
		if (!path.startsWith("message/") || hits.length === HITS) continue;
		const text = blocks.map((one) => one.text ?? JSON.stringify(one.arguments)).join("\n");
		const plain = text.toLowerCase();
		if (!words.every((word) => plain.includes(word))) continue;
		const at = plain.indexOf(words[0]);
		const end = at + words[0].length;
		const parts = [[text.slice(Math.max(0, at - AROUND), at)], [text.slice(at, end), true], [text.slice(end, end + AROUND)]];
		hits.push({ seq, at_ms, hidden, parts, kind: "message" });
	}
	const { title, project } = inside[""];
	return { query, sessions: hits.length ? [{ id: inside.id, title, project, hits }] : [] };
}

/** @param {Record<string, string | number>} [query] @returns {Promise<any>} */
export function ask(path, query = {}) {
	if (inside) return saved(path, query);
	const words = new URLSearchParams(
		Object.entries(query).map(([name, value]) => [name, String(value)]),
	);
	return answered(words.size ? `${path}?${words}` : path);
}

/** @param {object} value */
export function send(path, value) {
	const headers = { "Content-Type": "application/json" };
	return answered(path, { method: "POST", headers, body: JSON.stringify(value) });
}

export function place(id) {
	return `/api/s/${encodeURIComponent(id)}`;
}

/** @type {Set<(heads: Record<string, number> | null) => void>} */
const listeners = new Set();
/** @type {EventSource | null} */
let stream = null;
/** @type {Record<string, number> | null} */
let heads = null;

/**
 * Calls a listener with the heads of all conversations whenever one changes, and with null when
 * the server is gone. Returns a function that ends it. A hidden tab has no stream: a browser keeps
 * few connections to one server.
 * @param {(heads: Record<string, number> | null) => void} listener
 */
export function follow(listener) {
	if (inside) return () => {};
	listeners.add(listener);
	if (heads) listener(heads);
	connect();
	return () => {
		listeners.delete(listener);
	};
}

function connect() {
	if (stream || document.hidden || !listeners.size) return;
	stream = new EventSource("/api/live");
	stream.onmessage = (event) => {
		heads = JSON.parse(event.data);
		for (const listener of listeners) listener(heads);
	};
	stream.onerror = () => {
		for (const listener of listeners) listener(null);
	};
}

document.addEventListener("visibilitychange", () => {
	if (document.hidden) {
		stream?.close();
		stream = null;
	} else {
		connect();
	}
});
