/**
 * Questions to the server, and the stream of its changes. In a saved file the answers are inside,
 * and nothing is sent.
 */

/** An error of refold, with its advice. */
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

/**
 * @param {Record<string, string | number>} [query]
 */
export function ask(path, query = {}) {
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

/** */
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
