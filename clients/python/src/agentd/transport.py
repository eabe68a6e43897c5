"""One connection to a daemon, and the methods of its services by their descriptors."""

from __future__ import annotations

import weakref
from typing import Any

import grpc
from google.protobuf import message_factory

from . import v1
from .errors import AgentdError, OtherVersion, from_rpc

PROTOCOL_VERSION = 1
HANDSHAKE_SECONDS = 5
MAX_MESSAGE = 16 * 1024 * 1024

OPTIONS = [
    # A Unix socket has no host name, and its path is not a valid one.
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # A new channel must not wait because an older one to the same path has failed.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


class Connection:
    """A channel to one socket, after the handshake."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.hello = v1.HelloResponse()
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS)
        self._methods: dict[tuple[str, str], Any] = {}
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()

    async def shake_hands(self, name: str, version: str) -> v1.HelloResponse:
        """Performs the handshake, and rejects a daemon with a different protocol version."""
        request = v1.HelloRequest(client=name, version=version, protocol_version=PROTOCOL_VERSION)
        self.hello = await self.call("Daemon", "Hello", request, timeout=HANDSHAKE_SECONDS)
        theirs = self.hello.protocol_version
        if theirs != PROTOCOL_VERSION:
            raise OtherVersion(
                f"the daemon at {self.socket} uses protocol version {theirs}; this client requires {PROTOCOL_VERSION}",
                "OTHER_VERSION",
                "install the client package with the version of the daemon",
            )
        return self.hello

    def method(self, service: str, name: str) -> Any:
        """Returns the grpc callable for a method, unary or streaming according to its descriptor."""
        if (service, name) not in self._methods:
            method = v1.SERVICES[service].methods_by_name[name]
            kinds = ("unary", "stream")
            kind = f"{kinds[method.client_streaming]}_{kinds[method.server_streaming]}"
            self._methods[service, name] = getattr(self._channel, kind)(
                f"/agentd.v1.{service}/{name}",
                request_serializer=message_factory.GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
            )
        return self._methods[service, name]

    async def call(self, service: str, name: str, request: Any, timeout: float | None = None) -> Any:
        """Calls a method with one response."""
        try:
            return await self.method(service, name)(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        except grpc.aio.UsageError as error:
            raise AgentdError(str(error), "DISCONNECTED") from None

    def stream(self, service: str, name: str, *requests: Any) -> Any:
        """Opens the stream of a method with many responses."""
        call = self.method(service, name)(*requests)
        self._streams.add(call)
        return call

    async def close(self) -> None:
        """Closes the connection and its streams."""
        for call in list(self._streams):
            call.cancel()
        await self._channel.close()
