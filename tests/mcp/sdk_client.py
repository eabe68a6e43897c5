"""Uses `agentctl mcp serve` through the MCP SDK for Python, which checks each result against the tool's output schema."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(agentctl):
    server = StdioServerParameters(command=agentctl, args=["mcp", "serve"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        assert all(tool.output_schema and tool.annotations for tool in tools), tools
        waiting = (await session.call_tool("ask", {"prompt": "Write it"})).structured_content
        interrupt = waiting["interrupts"][0]["id"]
        arguments = {"interrupt_id": interrupt, "decision": "reject", "reason": "not now"}
        rejected = (await session.call_tool("answer", arguments)).structured_content
        found = await session.call_tool("search_documents", {"session_id": waiting["session_id"], "query": "x"})
        assert found.structured_content["hits"] == [], found
        sessions = (await session.call_tool("list_sessions", {})).structured_content["sessions"]
        print(json.dumps({
            "tools": [tool.name for tool in tools],
            "waiting": waiting,
            "rejected": rejected,
            "sessions": len(sessions),
        }))


asyncio.run(main(sys.argv[1]))
