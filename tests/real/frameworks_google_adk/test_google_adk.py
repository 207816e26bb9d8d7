"""The ADK's real runner with the plugin, against an upstream as strict as the provider."""

from __future__ import annotations

import asyncio
import gc

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

import refold
from refold.edges.adapters.google_adk import RefoldPlugin
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh
from tests.real.proxy.strict.server import serving

MODEL = "gemini-2.5-flash"
TURNS = 30

# Connections of the ADK's client are left to the collector.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def collected():
    yield
    gc.collect()


def read(path: str) -> str:
    """Reads a file."""
    return f"the lines of {path}\n" * 300


def turns(count: int) -> list[list[dict[str, object]]]:
    """Calls of a tool, and the end, as parts."""
    calls = [
        {"functionCall": {"id": f"c{n}", "name": "read", "args": {"path": f"file{n}.py"}}}
        for n in range(count)
    ]
    return [*([call] for call in calls), [{"text": "Done."}]]


async def run(
    runner: InMemoryRunner, session: str, text: str, mode: StreamingMode = StreamingMode.NONE
) -> list[str]:
    said = []
    message, config = types.UserContent(text), RunConfig(streaming_mode=mode)
    async for event in runner.run_async(
        user_id="me", session_id=session, new_message=message, run_config=config
    ):
        said += [part.text for part in event.content.parts if part.text]
    return said


def runner_at(url: str, plugin: RefoldPlugin) -> InMemoryRunner:
    model = Gemini(model=MODEL, base_url=url)
    agent = LlmAgent(name="fixer", model=model, instruction="You fix tests.", tools=[read])
    return InMemoryRunner(app=App(name="fixing", root_agent=agent, plugins=[plugin]))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "none")


def test_a_long_run_is_never_refused(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    plugin = RefoldPlugin(store=place, window=WINDOW)

    async def play(url: str) -> None:
        model = Gemini(model="gemini-3-pro", base_url=url)
        agent = LlmAgent(name="harbour", model=model, tools=[weigh])
        runner = InMemoryRunner(app=App(name="harbour", root_agent=agent, plugins=[plugin]))
        await runner.session_service.create_session(
            app_name="harbour", user_id="me", session_id="s"
        )
        for question in QUESTIONS:
            await run(runner, "s", question)
        await runner.close()

    with long_run("gemini") as upstream:
        asyncio.run(play(upstream.url))
    check_long_run(upstream, place)


def test_a_long_run_is_folded_and_the_session_keeps_all(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    plugin = RefoldPlugin(store=place, window=16_000)

    async def main(url: str) -> tuple[list[str], int]:
        runner = runner_at(url, plugin)
        service = runner.session_service
        session = await service.create_session(app_name="fixing", user_id="me", session_id="s1")
        said = await run(runner, session.id, "Fix the login test")
        kept = await service.get_session(app_name="fixing", user_id="me", session_id="s1")
        await runner.close()
        return said, len(kept.events)

    with serving(*turns(TURNS)) as upstream:
        said, events = asyncio.run(main(upstream.url))
    assert said == ["Done."]
    assert upstream.refusals == []
    assert len(upstream.requests) == TURNS + 1
    assert events == 2 * (TURNS + 1)
    assert len(upstream.requests[-1].body["contents"]) < TURNS
    [about] = refold.conversations.list(place)
    assert about.names == ("adk/fixing/me/s1/fixer",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


def test_what_fits_goes_out_as_it_came(tmp_path):
    sent = []
    for plugins in ([], [RefoldPlugin(store=f"sqlite:{tmp_path}/a.db")]):

        async def main(url: str, plugins: list[RefoldPlugin] = plugins) -> None:
            agent = LlmAgent(name="fixer", model=Gemini(model=MODEL, base_url=url), tools=[read])
            runner = InMemoryRunner(app=App(name="fixing", root_agent=agent, plugins=plugins))
            session = await runner.session_service.create_session(app_name="fixing", user_id="me")
            await run(runner, session.id, "Fix the login test")
            await runner.close()

        with serving(*turns(3)) as upstream:
            asyncio.run(main(upstream.url))
        sent.append([one.body for one in upstream.requests])
    assert sent[0] == sent[1]


@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("mode", [StreamingMode.NONE, StreamingMode.SSE])
def test_an_answer_is_in_the_log_when_it_comes_and_once(mode, has_ids, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    plugin = RefoldPlugin(store=place)
    calls = [
        {"name": "read", "args": {"path": "a.py"}} | ({"id": id} if has_ids else {}) for id in "ab"
    ]
    plays = [
        [{"functionCall": calls[0]}],
        [{"text": "The clock."}],
        [{"functionCall": calls[1]}],
        [{"text": "Yes."}],
    ]

    async def main(url: str) -> None:
        runner = runner_at(url, plugin)
        service = runner.session_service
        session = await service.create_session(app_name="fixing", user_id="me", session_id="s1")
        await run(runner, session.id, "Why?", mode)
        assert said_in(place) == FIRST_RUN
        await run(runner, session.id, "Sure?", mode)
        assert said_in(place) == FIRST_RUN + SECOND_RUN
        await runner.close()

    with serving(*plays) as upstream:
        asyncio.run(main(upstream.url))
    assert upstream.refusals == []


@pytest.mark.parametrize("manages", [False, True])
def test_that_the_app_compacts_as_well_is_said_once(manages, caplog):
    plugin = RefoldPlugin(store="memory:")
    compacts = EventsCompactionConfig(compaction_interval=99, overlap_size=1) if manages else None

    async def main(url: str) -> None:
        agent = LlmAgent(name="fixer", model=Gemini(model=MODEL, base_url=url), tools=[read])
        app = App(
            name="fixing", root_agent=agent, plugins=[plugin], events_compaction_config=compacts
        )
        runner = InMemoryRunner(app=app)
        session = await runner.session_service.create_session(app_name="fixing", user_id="me")
        await run(runner, session.id, "Fix it")
        await runner.close()

    with serving(*turns(3)) as upstream:
        asyncio.run(main(upstream.url))
    assert caplog.text.count("both EventsCompactionConfig of the app and") == manages


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving([{"text": "Because of the clock."}]) as upstream:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", upstream.url)
        run_guide("google-adk.md")
    assert "Because of the clock." in capsys.readouterr().out
