#!/usr/bin/env python3
"""Reports when a session of agentd waits for you or ends: on the desktop with notify-send, else as lines."""

import asyncio
import os
import shutil

import agentd

DESKTOP = None if os.environ.get("NOTIFY") == "print" else shutil.which("notify-send")


async def notify(title: str, body: str) -> None:
    print(f"{title}: {body}", flush=True)
    if DESKTOP:
        await (await asyncio.create_subprocess_exec(DESKTOP, "--app-name=agentd", "--", title, body)).wait()


async def main() -> None:
    titles: dict[str, str] = {}
    async with agentd.Client("notifier") as client:
        async for event in client.watch():
            kind = event.WhichOneof("kind")
            if kind == "snapshot":
                titles.update((session.id, session.title) for session in event.snapshot.sessions)
                print(f"watching {len(titles)} sessions", flush=True)
            elif kind in ("session_created", "session_changed"):
                titles[getattr(event, kind).id] = getattr(event, kind).title
            elif kind == "interrupt_raised":
                asked = event.interrupt_raised
                subject = asked.approval.tool or asked.question.question
                await notify(f"{titles.get(asked.session_id) or 'A session'} waits", subject)
            elif kind == "turn_ended":
                ended = event.turn_ended
                reason = agentd.errors.reason_name(ended.stop_reason)
                await notify(f"{titles.get(ended.session_id) or 'A session'} ended", ended.error.message or reason)


if __name__ == "__main__":
    asyncio.run(main())
