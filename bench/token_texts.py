"""Texts to count: code and English from Python's own library, our docs, JSON and Chinese made up by
a seed.

Each kind is cut into messages of the sizes that agents send, lognormal around a kilobyte, and these
into conversations. With a folder of recorded sessions, these are one more kind. The same texts on
every machine with the same Python.
"""

from __future__ import annotations

import json
import pydoc_data.topics
import random
import sysconfig
from math import log
from pathlib import Path

from bench.sessions import session_of, session_paths, text_of

SEED = 5
CHARS = 1_000_000
CONVERSATION_MESSAGES = 40
SESSIONS = 40
MESSAGE_CHARS, MESSAGE_SPREAD = 1_200, 0.9
MESSAGE_CHARS_MIN, MESSAGE_CHARS_MAX = 40, 20_000
_DOCS = Path(__file__).parent.parent / "docs"
_CLAUSES = (
    "我们先检查日志", "数据库连接超时", "测试已经全部通过", "这个函数返回了错误的结果",
    "请在配置文件里修改端口", "用户登录之后页面没有刷新", "需要重新启动服务", "昨天的版本没有这个问题",
    "缓存里的内容已经过期", "接口文档写得不够清楚", "我建议把这段代码拆成两个模块", "权限不足，无法写入目录",
    "下一步是补充单元测试", "内存占用一直在增加", "这条记录在迁移时丢失了", "部署之前要先备份数据",
    "网络不稳定的时候会重试三次", "变量名称容易让人误解", "线程之间共享了同一个对象", "编译器给出了两个警告",
    "客户希望月底之前上线", "搜索结果按照相关性排序", "图片上传失败是因为文件太大", "时间戳使用的是毫秒",
    "这里应该抛出异常而不是返回空值", "队列满了以后新的任务会被拒绝", "合并分支的时候出现了冲突",
    "我已经把修改提交到仓库", "性能比上个版本提高了一倍", "请确认环境变量是否设置正确",
    "索引没有被使用，所以查询很慢", "翻译文件缺少几个词条",
)  # fmt: skip
_WORDS = [
    "id", "name", "path", "status", "created", "owner", "total", "items", "error", "branch", "commit", "score",
    "enabled", "tags", "parent", "offset",
]  # fmt: skip


Conversations = list[list[str]]


def texts(folder: Path | None, quick: bool) -> dict[str, Conversations]:
    """The conversations of every kind; a message is its text."""
    size = CHARS // 10 if quick else CHARS
    kinds = {"code": _code(), "JSON": _json(size), "English": _english(), "Chinese": _chinese(size)}
    found = {kind: _conversations(_messages(text[:size])) for kind, text in kinds.items()}
    if folder is not None:
        found["sessions"] = _recorded(folder, SESSIONS // 10 if quick else SESSIONS)
    return found


def _conversations(messages: list[str]) -> Conversations:
    size = CONVERSATION_MESSAGES
    return [messages[at : at + size] for at in range(0, len(messages) - size + 1, size)]


def _code() -> str:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files[::3])


def _english() -> str:
    topics = pydoc_data.topics.topics
    own = [path.read_text(encoding="utf-8") for path in sorted(_DOCS.rglob("*.md"))]
    return "\n".join([*(topics[name] for name in sorted(topics)), *own])


def _json(size: int) -> str:
    pick, lines, chars = random.Random(SEED), [], 0
    while chars < size:
        lines.append(
            json.dumps(_record(pick, 0), indent=pick.choice((None, None, 2)), ensure_ascii=False)
        )
        chars += len(lines[-1])
    return "\n".join(lines)


def _record(pick: random.Random, depth: int) -> dict[str, object]:
    return {name: _value(pick, depth) for name in pick.sample(_WORDS, pick.randint(3, 8))}


def _value(pick: random.Random, depth: int) -> object:
    kind = pick.randrange(7 if depth < 2 else 5)
    if kind == 0:
        return pick.choice(
            (pick.randrange(100), pick.randrange(10**9), round(pick.random() * 100, 2))
        )
    if kind == 1:
        return pick.choice((True, False, None))
    if kind == 2:
        return f"{pick.getrandbits(64):016x}"
    if kind == 3:
        return f"src/{pick.choice(_WORDS)}/{pick.choice(_WORDS)}_{pick.choice(_WORDS)}.py"
    if kind == 4:
        return " ".join(pick.choices(_WORDS, k=pick.randint(2, 9)))
    return (
        [_record(pick, depth + 1) for _ in range(pick.randint(1, 3))]
        if kind == 5
        else _record(pick, depth + 1)
    )


def _chinese(size: int) -> str:
    pick, parts, chars = random.Random(SEED), [], 0
    while chars < size:
        sentence = "，".join(pick.sample(_CLAUSES, pick.randint(1, 4))) + pick.choice(
            ("。", "。", "！", "？", "。\n")
        )
        parts.append(sentence)
        chars += len(sentence)
    return "".join(parts)


def _recorded(folder: Path, sessions: int) -> Conversations:
    paths = session_paths(folder)
    chosen = paths[:: max(1, len(paths) // sessions)]
    return [
        [text for message in session_of(path) if (text := text_of(message).strip())]
        for path in chosen
    ]


def _messages(text: str) -> list[str]:
    pick, messages, at = random.Random(SEED), [], 0
    while at < len(text):
        wanted = int(pick.lognormvariate(log(MESSAGE_CHARS), MESSAGE_SPREAD))
        end = at + min(max(wanted, MESSAGE_CHARS_MIN), MESSAGE_CHARS_MAX)
        messages.append(text[at:end])
        at = end
    return messages
