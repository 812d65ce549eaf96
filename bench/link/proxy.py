"""A UDP proxy that puts a link between a client and a server, without privileges, on any system.

It runs as a process of its own (a busy neighbour in the same interpreter would delay packets by
milliseconds), sleeps in one `select`, and asks two `LinkModel`s what is due. Timer slack is set to
1 us, real-time priority taken (both where allowed) and the garbage collector frozen: measured
lateness is then about 0.1 ms. Each client gets a socket of its own towards the target, which can
so tell clients apart.
A proxy carries no ECN marks, and the target sees the proxy's address.

It ends, and writes what the link saw, on SIGTERM, SIGINT, or when its standard input closes (with
`--stop-on-eof`): the last works on Windows too, and no proxy outlives the process that started it.

    python -m limen.bench.link.proxy --profile tight --target 127.0.0.1:4433 --stats link.json
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from .model import LinkModel
from .orders import Orders
from .path import flip_bit
from .profile import LinkProfile, ProfileError, load_profile

MAX_CLIENTS = 128
"""Sockets held towards the target; far below select's limit of 1,024 descriptors."""
BATCH = 64
"""Packets read from a socket before the other sockets and the clock get their turn."""
BUFFER_BYTES = 4 << 20
"""Kernel buffers: what waits belongs in the model, never in a kernel drop nobody counts."""
PR_SET_TIMERSLACK = 29
RT_PRIORITY = 20
"""Real-time priority, where allowed: under load p99 of 20 ms set is then 20.2 ms, not 23."""

Address = tuple[str, int]


class LinkProxy:
    """Two link directions between one listening UDP port and one target. Single-threaded.

    `serve` runs until `stop` is called (from a signal handler or another thread).
    """

    def __init__(
        self,
        profile: LinkProfile,
        *,
        target: Address,
        listen: Address = ("127.0.0.1", 0),
        seed: int = 1,
        client_sends: bool = True,
        held: bool = False,
    ) -> None:
        """`client_sends`: the client is the media's sender, so that its packets go `down`.

        `held`: link time waits for `release` instead of the first packet.
        """
        self.profile = profile
        self.seed = seed
        outward, back = (profile.down, profile.up) if client_sends else (profile.up, profile.down)
        self._names = ("down", "up") if client_sends else ("up", "down")
        self._outward = LinkModel[tuple[Address, bytes]](
            outward, 2 * seed, damage=_damage, held=held
        )
        self._back = LinkModel[tuple[Address, bytes]](back, 2 * seed + 1, damage=_damage, held=held)
        self._family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        self._target = target
        self._listening = self._socket()
        self._listening.bind(listen)
        # A datagram to itself is the one wake-up that select knows on every system.
        self._wake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._wake.bind(("127.0.0.1", 0))
        self._wake.setblocking(False)
        self._clients: dict[Address, socket.socket] = {}
        self._addresses: dict[socket.socket, Address] = {}
        self._flows: dict[Address, int] = {}
        self._admitted = 0
        self._running = True
        self._release_at: float | None = None
        self._send_failures = 0
        self._worst_lateness = 0.0

    @property
    def port(self) -> int:
        """The UDP port that clients send to."""
        return int(self._listening.getsockname()[1])

    def stop(self) -> None:
        """Make `serve` return; safe from signal handlers and other threads."""
        self._running = False
        self._wake_up()

    def release(self, at: float) -> None:
        """Let a held link's time begin at `at`, monotonic; safe from other threads."""
        self._release_at = at
        self._wake_up()

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.sendto(b"x", self._wake.getsockname())

    def serve(self) -> None:
        """Forward packets until stopped."""
        links = (self._outward, self._back)
        while self._running:
            due = [event for link in links if (event := link.next_event()) is not None]
            if (begin := self._release_at) is not None:
                if begin <= time.monotonic():
                    self._release_at = None
                    for link in links:
                        link.release(now=begin)
                    continue
                due.append(begin)
            wait = max(0.0, min(due) - time.monotonic()) if due else None
            sockets = [self._wake, self._listening, *self._clients.values()]
            ready, _, _ = select.select(sockets, (), (), wait)
            for sock in ready:
                if sock is self._listening:
                    self._read_clients()
                elif sock is self._wake:
                    sock.recv(1)
                else:
                    self._read_target(sock)
            self._deliver(time.monotonic())

    def stats(self) -> dict[str, Any]:
        """What the link saw so far; `started` is on the monotonic clock all local processes share.

        Both directions' link time starts with the first packet of either, or when released.
        """
        now = time.monotonic()
        return {
            "profile": self.profile.to_dict(),
            "seed": self.seed,
            "clock": "time.monotonic of the host",
            "started": self._outward.started,
            "ended": now,
            "clients": len(self._clients),
            "send_failures": self._send_failures,
            "forwarding_lateness_max_ms": round(self._worst_lateness * 1e3, 3),
            self._names[0]: self._outward.stats(now=now),
            self._names[1]: self._back.stats(now=now),
        }

    def close(self) -> None:
        """Close every socket."""
        for sock in (self._listening, self._wake, *self._clients.values()):
            sock.close()
        self._clients.clear()

    def _socket(self) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        sock.setblocking(False)
        return sock

    def _read_clients(self) -> None:
        for _ in range(BATCH):
            try:
                packet, address = self._listening.recvfrom(65535)
            except OSError:  # nothing more, or a reset that an earlier reply caused (Windows)
                return
            client: Address = address[:2]
            if client not in self._clients and not self._admit(client):
                continue
            now = time.monotonic()
            self._back.start(now=now)
            flow = self._flows[client]
            self._outward.push((client, packet), now=now, size=len(packet), flow=flow)

    def _admit(self, client: Address) -> bool:
        if len(self._clients) >= MAX_CLIENTS:
            oldest = next(iter(self._clients))
            gone = self._clients.pop(oldest)
            del self._addresses[gone], self._flows[oldest]
            gone.close()
        sock = self._socket()
        try:
            sock.connect(self._target)
        except OSError:
            sock.close()
            self._send_failures += 1
            return False
        self._clients[client] = sock
        self._addresses[sock] = client
        self._flows[client] = self._admitted
        self._admitted += 1
        return True

    def _read_target(self, sock: socket.socket) -> None:
        client = self._addresses.get(sock)
        if client is None:  # closed within this round
            return
        for _ in range(BATCH):
            try:
                packet = sock.recv(65535)
            except OSError:  # nothing more, or ECONNREFUSED: the target is not there (yet)
                return
            flow = self._flows[client]
            self._back.push((client, packet), now=time.monotonic(), size=len(packet), flow=flow)

    def _deliver(self, now: float) -> None:
        for link in (self._outward, self._back):
            event = link.next_event()
            if event is not None and event <= now:
                self._worst_lateness = max(self._worst_lateness, now - event)
        for client, packet in self._outward.pop(now=now):
            sock = self._clients.get(client)
            if sock is not None:
                self._send(sock, packet, None)
        for client, packet in self._back.pop(now=now):
            self._send(self._listening, packet, client)

    def _send(self, sock: socket.socket, packet: bytes, address: Address | None) -> None:
        # A pending ECONNREFUSED is reported instead of sending: clear it by trying once more.
        for _ in range(2):
            try:
                if address is None:
                    sock.send(packet)
                else:
                    sock.sendto(packet, address)
            except OSError:
                continue
            return
        self._send_failures += 1


def _damage(packet: tuple[Address, bytes], position: int) -> tuple[Address, bytes]:
    return packet[0], flip_bit(packet[1], position)


def sharpen_timers() -> None:
    """Wake up on time: 1 us of timer slack, frozen garbage, real-time priority if allowed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)  # ns
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(RT_PRIORITY))
    gc.collect()
    gc.freeze()


def _parse_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


def main(arguments: list[str] | None = None) -> int:
    """Run the proxy as a program; the exit status is 0 after a stop, 2 on a bad profile."""
    parser = argparse.ArgumentParser(description="Put an emulated link in front of a UDP server.")
    parser.add_argument("--profile", required=True, help="shipped profile's name, or a .toml path")
    parser.add_argument("--target", required=True, type=_parse_address, metavar="HOST:PORT")
    parser.add_argument(
        "--listen", default=("127.0.0.1", 0), type=_parse_address, metavar="HOST:PORT"
    )
    parser.add_argument("--duration", type=float, help="the run's length in s, for timed profiles")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", choices=("sender", "receiver"), default="sender")
    parser.add_argument("--stats", type=Path, metavar="FILE", help="write what the link saw here")
    parser.add_argument("--stop-on-eof", action="store_true", help="end when stdin closes")
    parser.add_argument(
        "--held",
        action="store_true",
        help="link time begins with a line `start SECONDS` on stdin; needs --stop-on-eof",
    )
    parser.add_argument("--trace", type=Path, help="instead of the profile's rate towards media")
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile, duration=options.duration, trace=options.trace)
        proxy = LinkProxy(
            profile,
            target=options.target,
            listen=options.listen,
            seed=options.seed,
            client_sends=options.client == "sender",
            held=options.held,
        )
    except (ProfileError, OSError) as error:
        print(f"link proxy: {error}", file=sys.stderr)  # noqa: T201 - a program's own output
        return 2
    for name in ("SIGTERM", "SIGINT"):
        signal.signal(getattr(signal, name), lambda *_: proxy.stop())
    if options.stop_on_eof:
        orders = Orders(sys.stdin.fileno())

        def obey() -> None:
            while not orders.over:
                orders.read()
                if orders.start is not None:
                    proxy.release(orders.start)
                    orders.start = None
            proxy.stop()

        threading.Thread(target=obey, daemon=True, name="stdin").start()
    print(json.dumps({"port": proxy.port}), flush=True)  # noqa: T201 - a program's own output
    sharpen_timers()
    try:
        proxy.serve()
    finally:
        stats = proxy.stats()
        proxy.close()
        if options.stats is not None:
            options.stats.write_text(json.dumps(stats), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
