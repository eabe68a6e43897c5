"""deepagents, set up as its documentation says for a model with a window of its own.

- The model is langchain-openai's `ChatOpenAI` at our address. Its `profile` has `max_input_tokens`, from which deepagents
  takes when to sum up (at 85 % of it) and how much to keep (10 %); without it it would wait for 170,000 tokens.
- The middleware is the default one of `create_deep_agent`: files, subagents, summaries with the replaced history in
  `/conversation_history`. Files are on disk (`FilesystemBackend`), the state of the conversation is kept by a checkpointer.
- It has no tool to ask a person, so it gets one that raises LangGraph's `interrupt`, as its documentation says.
"""

import pathlib
import shutil
import tempfile
import warnings

import server
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt


@tool
def ask_human(question: str) -> str:
    """Asks the person a question; the answer is what they say."""
    return interrupt(question)


class Theirs:
    def __init__(self, models, _, folder):
        warnings.simplefilter("ignore")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="theirs-", dir=folder))
        (self.root / "reports").mkdir()
        model = ChatOpenAI(
            model=server.MODEL,
            base_url=models.url,
            api_key="none",
            max_retries=0,
            use_responses_api=False,
            profile={"max_input_tokens": models.window, "tool_calling": True},
        )
        self.agent = create_deep_agent(
            model=model,
            tools=[ask_human],
            backend=FilesystemBackend(root_dir=self.root, virtual_mode=True),
            checkpointer=InMemorySaver(),
        )
        self.thread = {"configurable": {"thread_id": "1"}}
        self.details = []

    def report(self, text):
        (self.root / "reports" / "today.txt").write_text(text)

    def turn(self, text, reply):
        """Plays one turn to its end; says whether it came to a good one."""
        given = {"messages": [{"role": "user", "content": text}]}
        try:
            while self.agent.invoke(given, self.thread).get("__interrupt__"):
                given = Command(resume=reply)
        except Exception as error:
            self.details.append(f"{type(error).__name__}: {error}"[:300])
            return False
        return True

    @staticmethod
    def translate(action):
        """One action as a call of one of its tools."""
        kind, *rest = action
        if kind == "read":
            return "read_file", {"file_path": "/reports/today.txt"}
        if kind == "find":
            return "grep", {"pattern": rest[0], "path": "/reports", "output_mode": "content"}
        if kind == "ask":
            return "ask_human", {"question": rest[0]}
        if kind == "write":
            return "write_file", {"file_path": f"/outputs/{rest[0]}", "content": rest[1]}
        if kind == "search":
            # Its summary names a file in this folder; a literal text is what its grep takes.
            return "grep", {"pattern": rest[0], "path": "/conversation_history", "output_mode": "content"}
        return "write_todos", {}

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)
