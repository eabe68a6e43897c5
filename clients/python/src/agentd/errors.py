"""Errors, classified by the kind that the daemon reports."""

from __future__ import annotations

import grpc

from . import v1

DETAILS = "grpc-status-details-bin"


class AgentdError(Exception):
    """A failed call. Decide by ``kind``, never by the text; ``hint`` suggests a fix."""

    def __init__(self, message: str, kind: str = "INTERNAL", hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class NotRunning(AgentdError):
    """No daemon is running, and none could be started."""


class OtherVersion(AgentdError):
    """The daemon uses a different protocol version."""


class Disconnected(AgentdError):
    """The connection broke, or the daemon is stopping. It is not known whether the call took effect."""


class NotFound(AgentdError):
    """The named thing does not exist."""


class InvalidInput(AgentdError):
    """The request is malformed."""


class Conflict(AgentdError):
    """No longer valid: already answered, or its subject has changed."""


class Busy(AgentdError):
    """A turn of the session is open, or the queue is full; retry later."""


def reason_name(reason: int) -> str:
    """Returns the name of a stop reason, or the number if only newer daemons define it."""
    known = reason in v1.StopReason.values()
    return v1.StopReason.Name(reason).removeprefix("STOP_REASON_") if known else str(reason)


class TurnFailed(AgentdError):
    """A turn that ended without an answer. ``result`` has the details."""

    def __init__(self, result: v1.TurnResult) -> None:
        error = result.error
        reason = reason_name(result.stop_reason)
        kind = kind_name(error.kind) if result.HasField("error") else reason
        super().__init__(error.message or f"the turn ended with {reason}", kind, error.hint or None)
        self.result = result
        self.stop_reason = reason


CLASSES: dict[str, type[AgentdError]] = {
    "NOT_FOUND": NotFound,
    "INVALID_INPUT": InvalidInput,
    "CONFLICT": Conflict,
    "BUSY": Busy,
    "SHUTTING_DOWN": Disconnected,
}

# Kinds for statuses without details, which the transport creates.
BARE = {
    grpc.StatusCode.INVALID_ARGUMENT: "INVALID_INPUT",
    grpc.StatusCode.NOT_FOUND: "NOT_FOUND",
    grpc.StatusCode.FAILED_PRECONDITION: "CONFLICT",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "STORAGE",
    grpc.StatusCode.DEADLINE_EXCEEDED: "TIMEOUT",
    grpc.StatusCode.UNIMPLEMENTED: "PROTOCOL",
    grpc.StatusCode.OUT_OF_RANGE: "PROTOCOL",
}

# Statuses of the transport for a lost connection.
BROKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED}


def kind_name(kind: int) -> str:
    """Returns the name of a kind, or its number if only newer daemons define it."""
    known = v1.ErrorKind.values()
    return v1.ErrorKind.Name(kind).removeprefix("ERROR_KIND_") if kind in known else f"KIND_{kind}"


def from_rpc(error: grpc.aio.AioRpcError) -> AgentdError:
    """Converts the error of a call, with the kind and hint of the daemon if present."""
    message = error.details() or error.code().name
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS:
            detail = v1.ErrorDetail()
            for packed in v1.ErrorStatus.FromString(value).details:
                if packed.Unpack(detail):
                    kind = kind_name(detail.kind)
                    return CLASSES.get(kind, AgentdError)(message, kind, detail.hint or None)
    if error.code() in BROKEN:
        return Disconnected(f"the connection to the daemon was lost: {message}", "DISCONNECTED")
    kind = BARE.get(error.code(), "INTERNAL")
    return CLASSES.get(kind, AgentdError)(message, kind)
