"""Every statement that the store sends, except those that create the tables.

Each names one org, and those about a log name one conversation: no statement needs rows of two. The
list of conversations and a search span an org. `tests/stores/test_postgres_statements.py` checks
them all. Neighbours: `schema` has the tables; `log`, `forks_and_erasure`, `store` and
`search_index` send.
"""

from __future__ import annotations

from refold.stores.postgres.schema import NAME

_ROW = """
    conversation, head, chain, title, parent, parent_seq, at_ms, updated_ms
"""
_EVENT = "seq, at_ms, tokens, chain, kind, author, id, counter, digest, salt, body"
_GIVEN = """
    unnest(%(seq)s::bigint[], %(at_ms)s::bigint[], %(tokens)s::bigint[], %(chains)s::bytea[],
           %(kind)s::bytea[], %(author)s::bytea[], %(id)s::bytea[], %(counter)s::bytea[],
           %(digest)s::bytea[], %(salt)s::bytea[], %(body)s::bytea[]) AS given
"""
_ONE_LOG = "org = %(org)s AND conversation = %(conversation)s"

# --- conversations ---

LIST = f"""
SELECT {_ROW} FROM {NAME}.conversations
WHERE org = %(org)s AND conversation > %(after)s ORDER BY conversation LIMIT %(limit)s
"""
ROW = f"SELECT {_ROW} FROM {NAME}.conversations WHERE {_ONE_LOG}"
HEAD = f"SELECT head FROM {NAME}.conversations WHERE {_ONE_LOG}"
ROW_LOCKED = f"{ROW} FOR UPDATE"
CREATE = f"""
INSERT INTO {NAME}.conversations(org, {_ROW})
VALUES (%(org)s, %(conversation)s, %(head)s, %(chain)s, %(title)s, %(parent)s, %(parent_seq)s,
        %(at_ms)s, %(updated_ms)s)
ON CONFLICT DO NOTHING
"""
REPLACE_ROW = f"""
UPDATE {NAME}.conversations SET head = %(head)s, chain = %(chain)s, parent = %(parent)s,
    parent_seq = %(parent_seq)s, at_ms = %(at_ms)s, updated_ms = %(updated_ms)s
WHERE {_ONE_LOG}
"""
RETITLE = f"UPDATE {NAME}.conversations SET title = %(title)s WHERE {_ONE_LOG}"
DELETE_ROW = f"DELETE FROM {NAME}.conversations WHERE {_ONE_LOG}"

# --- events ---

# The row of the conversation comes with every event: existence and events are from one snapshot, in
# one query.
READ = f"""
SELECT c.parent, c.parent_seq, e.seq, e.at_ms, e.tokens, e.chain, e.kind, e.author, e.id,
       e.counter, e.digest, e.salt, e.body
FROM {NAME}.conversations c
LEFT JOIN {NAME}.events e ON e.org = c.org AND e.conversation = c.conversation
    AND e.seq > %(after)s AND e.seq <= %(last)s
WHERE c.org = %(org)s AND c.conversation = %(conversation)s
ORDER BY e.seq LIMIT %(limit)s
"""
SPAN = f"""
SELECT {_EVENT} FROM {NAME}.events
WHERE {_ONE_LOG} AND seq > %(after)s AND seq <= %(last)s ORDER BY seq LIMIT %(limit)s
"""
METAS = f"""
SELECT {_EVENT} FROM {NAME}.events
WHERE {_ONE_LOG} AND seq > %(after)s AND seq <= %(last)s AND kind = %(kind)s ORDER BY seq DESC
"""
# The row lock of the conversation is what orders all who append: a seq is given and becomes
# visible under it, so no reader ever meets a lower number after a higher one.
_APPEND = f"""
WITH moved AS (
    UPDATE {NAME}.conversations
    SET head = %(head)s, chain = %(chain)s, updated_ms = %(updated_ms)s,
        title = coalesce(%(title)s::bytea, title)
    WHERE {_ONE_LOG} AND head = %(expect)s RETURNING org, conversation)
INSERT INTO {NAME}.events(org, conversation, {_EVENT})
"""
_BEGIN = f"""
WITH moved AS (
    INSERT INTO {NAME}.conversations(org, {_ROW})
    VALUES (%(org)s, %(conversation)s, %(head)s, %(chain)s, coalesce(%(title)s::bytea, ''), '', 0,
            %(begun_ms)s, %(updated_ms)s)
    ON CONFLICT DO NOTHING RETURNING org, conversation)
INSERT INTO {NAME}.events(org, conversation, {_EVENT})
"""
_MANY = f"SELECT moved.org, moved.conversation, given.* FROM moved, {_GIVEN}"
# The usual append has one event; arrays cost twice its time.
_ONE = """
SELECT org, conversation, %(seq)s::bigint, %(at_ms)s::bigint, %(tokens)s::bigint, %(chain)s::bytea,
    %(kind)s::bytea, %(author)s::bytea, %(id)s::bytea, %(counter)s::bytea, %(digest)s::bytea,
    %(salt)s::bytea, %(body)s::bytea FROM moved
"""
APPEND = _APPEND + _MANY
APPEND_ONE = _APPEND + _ONE
BEGIN_LOG = _BEGIN + _MANY
BEGIN_LOG_ONE = _BEGIN + _ONE
INSERT_EVENTS = f"""
INSERT INTO {NAME}.events(org, conversation, {_EVENT})
SELECT %(org)s, %(conversation)s, given.* FROM {_GIVEN}
"""
# A commit that comes after another waits for the standby to have both.
CONFIRM = f"UPDATE {NAME}.conversations SET head = head WHERE {_ONE_LOG}"
ERASE = f"UPDATE {NAME}.events SET body = '', salt = '' WHERE {_ONE_LOG} AND seq = %(seq)s"
DELETE_EVENTS = f"DELETE FROM {NAME}.events WHERE {_ONE_LOG}"

# --- data of a conversation ---

FORKS = f"""
SELECT fork FROM {NAME}.forks WHERE {_ONE_LOG} AND fork_seq >= %(seq)s ORDER BY fork
"""
PUT_FORK = f"""
INSERT INTO {NAME}.forks(org, conversation, fork, fork_seq)
VALUES (%(org)s, %(conversation)s, %(fork)s, %(fork_seq)s)
ON CONFLICT (org, conversation, fork) DO UPDATE SET fork_seq = excluded.fork_seq
"""
DELETE_FORK = f"DELETE FROM {NAME}.forks WHERE {_ONE_LOG} AND fork = %(fork)s"
BOOKMARK = f"SELECT bookmark FROM {NAME}.bookmarks WHERE {_ONE_LOG}"
KEEP_BOOKMARK = f"""
WITH known AS (SELECT org, conversation FROM {NAME}.conversations WHERE {_ONE_LOG} FOR KEY SHARE)
INSERT INTO {NAME}.bookmarks(org, conversation, bookmark)
SELECT org, conversation, %(bookmark)s FROM known
ON CONFLICT (org, conversation) DO UPDATE SET bookmark = excluded.bookmark
"""
DELETE_BOOKMARK = f"DELETE FROM {NAME}.bookmarks WHERE {_ONE_LOG}"
KEEP_DAMAGED = f"""
INSERT INTO {NAME}.damaged(org, conversation, stamp, pieces)
VALUES (%(org)s, %(conversation)s, %(stamp)s, %(pieces)s)
"""
DELETE_DAMAGED = f"DELETE FROM {NAME}.damaged WHERE {_ONE_LOG}"

# --- contents: they belong to the org ---

_ONE_CONTENT = "org = %(org)s AND digest = %(digest)s"
# One clock for all machines: the database's.
_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
CONTENT = f"SELECT size_bytes FROM {NAME}.contents WHERE {_ONE_CONTENT}"
PUT_AGAIN = f"""
UPDATE {NAME}.contents SET put_ms = {_NOW_MS} WHERE {_ONE_CONTENT} AND size_bytes = (
    SELECT coalesce(sum(octet_length(bytes)), 0) FROM {NAME}.chunks WHERE {_ONE_CONTENT})
"""
PUT_CONTENT = f"""
INSERT INTO {NAME}.contents(org, digest, size_bytes, put_ms)
VALUES (%(org)s, %(digest)s, %(size_bytes)s, {_NOW_MS})
ON CONFLICT (org, digest) DO UPDATE
SET size_bytes = excluded.size_bytes, put_ms = excluded.put_ms
"""
PUT_CHUNK = f"""
INSERT INTO {NAME}.chunks(org, digest, number, bytes)
VALUES (%(org)s, %(digest)s, %(number)s, %(bytes)s)
"""
CHUNK = f"SELECT bytes FROM {NAME}.chunks WHERE {_ONE_CONTENT} AND number = %(number)s"
DROP_CONTENT = f"DELETE FROM {NAME}.contents WHERE {_ONE_CONTENT} AND put_ms < %(before_ms)s"
DROP_CHUNKS = f"DELETE FROM {NAME}.chunks WHERE {_ONE_CONTENT}"

# --- the search index ---

_ENTRY = """
    lane, position, seq, at_ms, words, role, tools, author, start, asks, is_own
"""
_IN_SCOPE = """(%(conversations)s::text[] IS NULL OR EXISTS (
    SELECT FROM unnest(%(conversations)s::text[], %(lasts)s::bigint[]) AS scope(id, last)
    WHERE scope.id = e.conversation AND e.seq <= scope.last))"""
_AMONG = """
    (%(conversations)s::text[] IS NULL OR conversation = ANY(%(conversations)s::text[]))
"""
MARKS = f"""
SELECT conversation, head, chain, parent, parent_seq FROM {NAME}.search_marks
WHERE org = %(org)s AND {_AMONG}
"""
ENTER_MARK = f"""
INSERT INTO {NAME}.search_marks(org, conversation, head, chain, parent, parent_seq)
VALUES (%(org)s, %(conversation)s, %(head)s, %(chain)s, %(parent)s, %(parent_seq)s)
ON CONFLICT DO NOTHING
"""
MOVE_MARK = f"""
UPDATE {NAME}.search_marks SET head = %(head)s, chain = %(chain)s
WHERE {_ONE_LOG} AND head = %(after)s
"""
LANES = f"""
SELECT lane, entries, context_words, ARRAY(
    SELECT e.words FROM {NAME}.search_entries e
    WHERE e.org = %(org)s AND e.conversation = %(conversation)s AND e.lane = l.lane
    AND e.position >= l.entries - 2 ORDER BY e.position)
FROM {NAME}.search_lanes l WHERE org = %(org)s AND conversation = %(conversation)s
"""
SET_LANE = f"""
INSERT INTO {NAME}.search_lanes(org, conversation, lane, entries, context_words)
VALUES (%(org)s, %(conversation)s, %(lane)s, %(entries)s, %(context_words)s)
ON CONFLICT (org, conversation, lane) DO UPDATE
SET entries = excluded.entries, context_words = excluded.context_words
"""
COUNT_AUTHOR = f"""
INSERT INTO {NAME}.search_authors AS a (org, conversation, author, entries)
VALUES (%(org)s, %(conversation)s, %(author)s, %(entries)s)
ON CONFLICT (org, conversation, author) DO UPDATE SET entries = a.entries + excluded.entries
"""
ADD_ENTRIES = f"""
INSERT INTO {NAME}.search_entries(org, conversation, {_ENTRY}, terms)
SELECT %(org)s, %(conversation)s, given.* FROM unnest(
    %(lane)s::bigint[], %(position)s::bigint[], %(seq)s::bigint[], %(at_ms)s::bigint[],
    %(words)s::bigint[], %(role)s::bytea[], %(tools)s::bytea[], %(author)s::bytea[],
    %(start)s::bigint[], %(asks)s::boolean[], %(is_own)s::boolean[], %(terms)s::tsvector[]) AS given
"""
FORGET_MARK = f"DELETE FROM {NAME}.search_marks WHERE {_ONE_LOG}"
FORGET_LANES = f"DELETE FROM {NAME}.search_lanes WHERE {_ONE_LOG}"
FORGET_AUTHORS = f"DELETE FROM {NAME}.search_authors WHERE {_ONE_LOG}"
FORGET_ENTRIES = f"DELETE FROM {NAME}.search_entries WHERE {_ONE_LOG}"
ERASE_ENTRIES = f"""
DELETE FROM {NAME}.search_entries WHERE {_ONE_LOG} AND seq = ANY(%(seqs)s::bigint[])
"""
SIZE = f"""
SELECT coalesce(sum(entries), 0)::bigint, coalesce(sum(context_words), 0)
FROM {NAME}.search_lanes WHERE org = %(org)s AND {_AMONG}
"""
AUTHORS = f"""
SELECT author, sum(entries)::bigint FROM {NAME}.search_authors
WHERE org = %(org)s AND {_AMONG} GROUP BY author
"""
# The rank of a term gives its number of occurrences: unnesting the vector costs a hundred times
# more.
POSTINGS = f"""
SELECT conversation, lane, position,
    ARRAY(SELECT ts_rank(e.terms, one) FROM unnest(%(counted)s::tsquery[]) AS one)
FROM {NAME}.search_entries e
WHERE org = %(org)s AND terms @@ %(sought)s::tsquery AND lane = ANY(%(lanes)s::bigint[])
    AND (%(role)s::bytea IS NULL OR role = %(role)s::bytea)
    AND (%(tool)s::bytea IS NULL OR position(%(tool)s::bytea IN tools) > 0)
    AND (%(since_ms)s::bigint IS NULL OR at_ms >= %(since_ms)s::bigint)
    AND (%(until_ms)s::bigint IS NULL OR at_ms <= %(until_ms)s::bigint)
    AND NOT (is_own AND %(without_own)s::boolean)
    AND {_IN_SCOPE}
ORDER BY at_ms DESC, conversation DESC, e.position DESC LIMIT %(most)s
"""
ENTRIES = f"""
SELECT e.conversation, {_ENTRY.replace("position", "e.position").replace("lane", "e.lane")}
FROM unnest(%(conversations)s::text[], %(lane)s::bigint[], %(places)s::bigint[])
    AS asked(conversation, lane, place)
JOIN {NAME}.search_entries e ON e.org = %(org)s AND e.conversation = asked.conversation
    AND e.lane = asked.lane AND e.position = asked.place
"""
