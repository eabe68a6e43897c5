"""Client of agentd: turns, events, approvals, tools of the client. ``agentd.v1`` has the messages of the protocol."""

from . import v1 as v1
from .client import VERSION as __version__
from .client import Client
from .errors import (
    AgentdError,
    Busy,
    Conflict,
    Disconnected,
    InvalidInput,
    NotFound,
    NotRunning,
    OtherVersion,
    TurnFailed,
)
from .events import (
    Approval,
    Ended,
    Event,
    Interrupt,
    ItemDone,
    Message,
    Question,
    Resolved,
    Text,
    Thought,
    ToolCall,
    ToolProgress,
    ToolResult,
    ToolStarted,
    TurnStarted,
    TurnWarning,
)
from .parts import file, picture, selection, text
from .tools import Tool
from .turn import Turn

__all__ = [
    "AgentdError", "Approval", "Busy", "Client", "Conflict", "Disconnected", "Ended", "Event", "Interrupt", "InvalidInput",
    "ItemDone", "Message", "NotFound", "NotRunning", "OtherVersion", "Question", "Resolved", "Text", "Thought", "Tool",
    "ToolCall", "ToolProgress", "ToolResult", "ToolStarted", "Turn", "TurnFailed", "TurnStarted", "TurnWarning", "__version__",
    "file", "picture", "selection", "text", "v1",
]  # fmt: skip
