"""What is planted to have a false cause named: captures and paths that deceive.

Taps that lose, copy or miss packets, clocks that step, middleboxes, windows that close, hosts
that stand still on either side, and servers that ask to be asked later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.trace.generator import nfs3, nfs4, nfs41
from tests.trace.generator.body import Body
from tests.trace.generator.flows import Packet
from tests.trace.generator.link import RST, SYN, Endpoint

from .hosts import SERVER, Asked, Client, World
from .made import CLIENT, Made, Scenario, four, has_data, joined, lose_one, pauses
from .network import MS, US, Segment
from .tcp import End


def killed_and_back(made: Made) -> Scenario:
    """The process is killed with calls under way; another one has the port at once."""
    world = made.world(service_ns=lambda w: round(w.rng.uniform(20, 60) * MS))
    made.client(world, depth=4, reconnect_ns=round(made.rng.uniform(80, 300) * MS))
    world.plan(world.dead, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.005, 0.05))
    return made.end(world, 3, "sent_again server_restarted", "connection_reset")


def firewall_forgot(made: Made) -> Scenario:
    """A box on the way passes nothing for a while, and then resets what it does not know."""
    world = made.world()
    made.client(world, reconnect_ns=round(made.rng.uniform(80, 300) * MS))
    begin = made.rng.uniform(0.6, 1.4)
    span = (world.at(begin), world.at(begin + made.rng.uniform(0.5, 2)))

    def away(_segment: Segment, now_ns: int) -> bool:
        return span[0] <= now_ns < span[1]

    def forgot(segment: Segment, now_ns: int) -> bool:
        known = world.client_ends[CLIENT].initial[0] != first[0]
        if now_ns >= span[1] and not known and not segment.flags & SYN:
            _reset_by_a_box(world, segment)
            return True
        return away(segment, now_ns)

    first = [world.client_ends[CLIENT].initial[0]]
    world.to_server.lost = forgot
    world.to_client.lost = away
    may = "network_loss needless_retransmission sent_again connection_reset"
    return made.end(world, 5.5, may, "connection_reset" if made.point == "client" else "")


def _reset_by_a_box(world: World, segment: Segment) -> None:
    if segment.flags & RST:
        return
    reset = Segment(SERVER, segment.source, RST, segment.acknowledgement)

    def arrives() -> None:
        if world.point != "server":
            world.frames.append(Packet(world.clock.now_ns, reset.packet()))
        world.client_ends[segment.source].segment(reset)

    world.clock.after(world.delay_ns, arrives)


def _without(frames: Iterable[Packet], lost: Callable[[Packet], bool]) -> list[Packet]:
    return [frame for frame in frames if not lost(frame)]


def began_in_the_middle(made: Made) -> Scenario:
    """The capture begins while the server's process stands still."""
    world = made.world()
    made.client(world)
    begin, length = 0.6, made.rng.uniform(0.3, 2)
    world.plan(world.stopped, begin, length)
    whole = made.end(world, 4.5, "server_stalled server_process_slow unanswered")
    first = world.at(begin + made.rng.uniform(0.005, 1.1) * length)
    return replace(whole, frames=_without(whole.frames, lambda frame: frame.time_ns < first))


def asked_before(made: Made) -> Scenario:
    """A call that was sent before the capture began is answered much later; the client pauses."""
    world = pauses(made, lambda rng: 0.2 + rng.expovariate(2), 6)
    client = world.clients[CLIENT]
    node = world.files[0]
    stuck: list[Asked] = []
    usual = world.never
    world.never = lambda asked: asked in stuck

    def ask() -> None:
        stuck.append(client.ask(nfs3.read(node, 0, 512)))

    def answer() -> None:
        world.never = usual
        world._reply(stuck[0])

    world.clock.at(world.at(0.02), ask)
    world.clock.at(world.at(made.rng.uniform(5.5, 6)), answer)
    whole = made.end(world, 6.1)
    first = world.at(0.04)
    return replace(whole, frames=_without(whole.frames, lambda frame: frame.time_ns < first))


def other_link(made: Made) -> Scenario:
    """Of two of four connections the replies went over another link."""
    world, ends = four(made)
    if made.rng.random() < 0.5:
        world.plan(world.stopped, 1.0, 0.5)
    whole = made.end(world, 3, "server_stalled server_process_slow capture_loss capture_lossy")
    hidden = {end.port for end in made.rng.sample(ends, 2)}
    lost = lambda frame: int.from_bytes(frame.ip[22:24], "big") in hidden  # noqa: E731
    return replace(whole, frames=_without(whole.frames, lost))


def sniffer_drops(made: Made) -> Scenario:
    world = made.world()
    made.client(world, depth=4)
    drop, share = random.Random(made.seed), made.rng.uniform(0.01, 0.05)
    whole = made.end(world, 4, "capture_loss", "capture_lossy")
    return replace(whole, frames=_without(whole.frames, lambda _: drop.random() < share))


def sniffer_away(made: Made) -> Scenario:
    """The capture lacks everything of some tenths of a second."""
    world = made.world()
    made.client(world, depth=4)
    begin = made.rng.uniform(0.6, 1.4)
    span = (world.at(begin), world.at(begin + made.rng.uniform(0.2, 1.2)))
    whole = made.end(world, 3.5, "capture_loss", "capture_lossy")
    lost = lambda frame: span[0] <= frame.time_ns < span[1]  # noqa: E731
    return replace(whole, frames=_without(whole.frames, lost))


def _twice(made: Made, frames: Iterable[Packet], with_ids: bool) -> list[Packet]:
    """Each packet, and its copy as a mirror port sees it leave."""
    out = []
    for frame in frames:
        ip = frame.ip if with_ids else frame.ip[:4] + b"\0\0" + frame.ip[6:]
        later = round(made.rng.uniform(2, 60) * US)
        out += [Packet(frame.time_ns, ip), Packet(frame.time_ns + later, ip)]
    return sorted(out, key=lambda packet: packet.time_ns)


def mirrored(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    whole = made.end(world, 3)
    return replace(whole, frames=_twice(made, whole.frames, True))


def mirrored_without_ids(made: Made) -> Scenario:
    """Senders that do not count identifications, as with IPv6."""
    world = made.world()
    made.client(world)
    whole = made.end(world, 3)
    return replace(whole, frames=_twice(made, whole.frames, False))


def mirrored_udp(made: Made) -> Scenario:
    world = made.world()
    made.client(world, udp=True, depth=2)
    whole = made.end(world, 3)
    return replace(whole, frames=_twice(made, whole.frames, made.rng.random() < 0.5))


def answered_on_the_old(made: Made) -> Scenario:
    """A reply is lost; the client gives the connection up, and asks again on another port."""
    world = made.world()
    client = made.client(world, depth=1)
    begin = made.rng.uniform(0.6, 1.4)
    lost = lose_one(lambda w: w.to_client, begin, has_data)(world)
    patience = round(made.rng.uniform(60, 180) * MS)

    def look() -> None:
        if not lost:
            world.clock.after(5 * MS, look)
        elif client.waiting:
            world.clock.at(lost[0] + patience, lambda: client.begin_again(CLIENT.port + 7))

    world.clock.at(world.at(begin), look)
    return made.end(world, 3, "network_loss sent_again connection_reset needless_retransmission")


def kept_alive(made: Made) -> Scenario:
    """While the client rests its host sends keep-alives, of no byte or of one."""
    world = pauses(made, lambda rng: 0.3 + rng.expovariate(1), 15)
    end = world.clients[CLIENT].end
    byte = made.rng.choice([b"", b"\0"])
    every = made.rng.uniform(0.2, 0.4)
    for number in range(round(15 / every)):

        def alive() -> None:
            if end is not None and end.state == "open" and not end._queue:
                end.alive(byte)

        world.clock.at(world.at(0.3 + number * every), alive)
    return made.end(world, 15, "client_idle", "client_idle" if made.point == "client" else "")


def slow_reader(made: Made) -> Scenario:
    """The client's host takes no more bytes: replies wait in the server for its window."""
    world = made.world()
    client = made.client(world, depth=4, think_ns=lambda: round(world.rng.expovariate(1e-7)))
    begin, length = made.rng.uniform(0.6, 1.4), made.rng.uniform(0.3, 2)
    world.clock.at(world.at(begin), lambda: _shut(client.end, True))
    world.clock.at(world.at(begin + length), lambda: _shut(client.end, False))
    return made.end(world, 6, must="client_full")


def slow_writer(made: Made) -> Scenario:
    """The server's process takes no bytes: calls wait in the client for its window."""
    world = made.world()
    client = made.client(world, depth=1, think_ns=lambda: round(world.rng.expovariate(1e-7)))
    begin, length = made.rng.uniform(0.6, 1.4), made.rng.uniform(0.3, 2)

    def shut(full: bool) -> None:
        _shut(world.ends.get(client.here), full)

    world.clock.at(world.at(begin), lambda: shut(True))
    world.clock.at(world.at(begin + length), lambda: shut(False))
    return made.end(world, 6, "server_stalled server_process_slow", "server_full")


def _shut(end: End | None, full: bool) -> None:
    if end is not None:
        end.shut(full)


def nagle(made: Made) -> Scenario:
    """WRITEs in two segments: the second waits for the delayed acknowledgement of the first."""
    world = made.world()
    rng = world.rng

    def make() -> Body:
        return nfs3.write(rng.choice(world.files), 0, rng.choice([1500, 2000, 2500]))

    client = made.client(world, depth=1, make=make)
    delay = made.rng.choice([40, 200]) * MS

    def slow() -> None:
        if client.end is not None:
            client.end.nagle = True
        for end in world.ends.values():
            end.delayed_ack_ns = delay

    world.clock.after(100 * MS, slow)
    # At 200 ms the timeout comes first, and sends again what was received.
    return made.end(world, 4, "needless_retransmission" if delay == 200 * MS else "")


def _later(made: Made, body: Callable[[World, bool], Body], depth: int) -> Scenario:
    """The server answers at once that it has to be asked again later."""
    world = made.world()
    rng = world.rng
    refused = [0]

    def make() -> Body:
        begin, left = world.clock.now_ns - world.at(1), refused[0]
        if begin > 0 and (left or rng.random() < 0.01):
            refused[0] = left - 1 if left else rng.randrange(1, 4)
            return body(world, True)
        return body(world, False)

    def think() -> int:
        wait = rng.uniform(0.1, 1.0) * 1e9 if refused[0] else rng.expovariate(1 / (5 * MS))
        return round(wait)

    made.client(world, depth=depth, make=make, think_ns=think)
    return made.end(world, 12, must="told_to_wait")


def jukebox(made: Made) -> Scenario:
    def body(world: World, later: bool) -> Body:
        status = nfs3.JUKEBOX if later else 0
        return nfs3.read(world.rng.choice(world.files), 0, 512, status=status)

    return _later(made, body, 1)


def delay_of_version_4(made: Made) -> Scenario:
    session = nfs41.Session()

    def body(world: World, later: bool) -> Body:
        node = world.rng.choice(world.files)
        read = nfs4.read(0, 512, status=nfs4.DELAY if later else 0)
        return session.on(node, read, named_by="READ")

    return _later(made, body, 1)


def slots(made: Made) -> Scenario:
    """NFSv4.1 with several slots; the process stands still."""
    world = made.world()
    session = nfs41.Session()

    def make() -> Body:
        node = world.rng.choice(world.files)
        return session.on(node, nfs4.read(0, 512), named_by="READ")

    made.client(world, depth=6, make=make)
    world.plan(world.stopped, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.5, 2))
    return made.end(world, 4, "server_stalled", "server_process_slow")


def one_of_four_far(made: Made) -> Scenario:
    """One of four connections goes a longer way; nothing waits, and nothing is lost."""
    world, ends = four(made)
    slow, way = made.rng.choice(ends), round(made.rng.uniform(20, 70) * MS)
    world.to_server.extra_ns = lambda s, _now: way if s.source == slow else 0
    return made.end(world, 3)


def udp_fragment_lost(made: Made) -> Scenario:
    world = made.world()
    rng = world.rng

    def make() -> Body:
        return nfs3.read(rng.choice(world.files), 0, 8192)

    made.client(world, udp=True, depth=1, make=make)
    world.to_client.fragment_bytes = 1480
    begin, done = world.at(made.rng.uniform(0.6, 1.4)), [made.rng.randrange(1, 6)]

    def lost(now_ns: int) -> bool:
        done[0] -= now_ns >= begin
        return done[0] == 0

    world.to_client.lost_fragment = lost
    # A fragment that is missing is the network's, or was not captured: the same picture.
    may = "network_loss sent_again capture_lossy capture_loss"
    return made.end(world, 4, may, "sent_again")


def offloaded(made: Made) -> Scenario:
    """Large WRITEs leave as one segment and are cut behind the tap, where a piece is lost."""
    world = made.world()
    rng = world.rng

    def make() -> Body:
        return nfs3.write(rng.choice(world.files), 0, rng.randrange(4_000, 12_000))

    made.client(world, depth=2, make=make)
    drop = random.Random(made.seed)
    world.to_server.lost = lambda segment, _now: has_data(segment) and drop.random() < 0.004
    whole = made.end(world, 2.5, "network_loss needless_retransmission")
    return replace(whole, frames=joined(whole.frames, CLIENT.port, 1 << 15))


def clock_stepped(made: Made) -> Scenario:
    """The capturing machine's clock is set, forth or back, amid traffic."""
    world = made.world(service_ns=lambda w: round(w.rng.uniform(1, 4) * MS))
    made.client(world, depth=4, think_ns=lambda: round(world.rng.expovariate(1 / (1 * MS))))
    at, step = world.at(made.rng.uniform(0.6, 1.0)), made.rng.choice([-1, 1])
    step *= round(made.rng.uniform(0.3, 3) * 1000) * MS
    whole = made.end(world, 1.6)
    moved = [
        replace(frame, time_ns=frame.time_ns + step * (frame.time_ns >= at))
        for frame in whole.frames
    ]
    return replace(whole, frames=moved)


def frozen_client(made: Made) -> Scenario:
    """The client's host stands still; the server sends again what is not acknowledged."""
    world = made.world()
    made.client(world, depth=2)
    world.plan(world.client_frozen, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.5, 3))
    return made.end(world, 5, "client_idle needless_retransmission")


def stopped_client(made: Made) -> Scenario:
    """The client's process stands still; its host acknowledges."""
    world = made.world()
    begin, length = made.rng.uniform(0.6, 1.4), made.rng.uniform(0.5, 3)
    span = (world.at(begin), world.at(begin + length))
    rng = world.rng

    def think() -> int:
        now = world.clock.now_ns
        wait = round(rng.expovariate(1 / (10 * MS)))
        return span[1] - now + wait if span[0] <= now < span[1] else wait

    made.client(world, depth=2, think_ns=think)
    return made.end(world, 5, "client_idle", "client_idle" if made.point == "client" else "")


def path_held(made: Made) -> Scenario:
    """Both ways hold all packets back, lose none, and let them go in their order."""
    world = made.world()
    made.client(world)
    begin = made.rng.uniform(0.6, 1.4)
    span = (world.at(begin), world.at(begin + made.rng.uniform(0.5, 2)))
    for path in (world.to_server, world.to_client):
        path.extra_ns = lambda _s, now: span[1] - now if span[0] <= now < span[1] else 0
    may = "needless_retransmission"
    if made.point == "client":
        # No different from a host that stands still: the text names both.
        may += " server_host_frozen server_stalled"
    return made.end(world, 5, may)


def checked_ports(made: Made) -> Scenario:
    """Something on the client's host connects and has itself closed or reset, without a call."""
    world = pauses(made, lambda rng: 0.3 + rng.expovariate(2), 12)
    how = made.rng.choice(["server closes", "server resets", "client resets"])
    for number in range(60):
        here = Endpoint(CLIENT.host, 20_000 + number)

        def check(here: Endpoint = here) -> None:
            other = Client(world, here, 0)

            def over() -> None:
                end = other.end if how == "client resets" else world.ends.pop(here, None)
                if end is not None:
                    end.close() if how == "server closes" else end.abort()

            other.reconnect_ns = 1 << 60
            world.clock.after(30 * MS, over)

        world.clock.at(world.at(0.1 + 0.2 * number), check)
    return made.end(world, 12, "client_idle", "client_idle" if made.point == "client" else "")


def slow_then_lost(made: Made) -> Scenario:
    """A call that takes longer than a delayed acknowledgement, whose reply is lost."""
    world = made.world()
    client = made.client(world, depth=1)
    node, begin = world.files[0], made.rng.uniform(0.8, 1.4)
    slow = [False]
    service = round(made.rng.uniform(50, 90) * MS)
    world.service_ns = lambda w: service if slow[0] else w._usual()

    def plant() -> None:
        slow[0] = True
        client.until_ns = 0
        asked = client.ask(nfs3.read(node, 0, 512), go_on)
        lose_one(lambda w: w.to_client, begin, lambda s: s.data != b"" and bool(asked))(world)

    def go_on() -> None:
        slow[0] = False
        client.until_ns = 1 << 62
        client.next()

    world.clock.at(world.at(begin), plant)
    may, must = "network_loss needless_retransmission", ""
    if made.point == "server":
        may, must = f"{may} server_stalled server_process_slow", "network_loss"
    return made.end(world, 3, may, must)


def closed_when_idle(made: Made) -> Scenario:
    """The server closes a connection that rests, and the next call opens another one."""
    world = made.world()
    client = made.client(world, depth=1)
    begin, length = made.rng.uniform(0.6, 1.4), made.rng.uniform(0.6, 2)
    span = (world.at(begin), world.at(begin + length))
    rng = world.rng
    client.reconnect_ns = span[1] - span[0]

    def think() -> int:
        now = world.clock.now_ns
        wait = round(rng.expovariate(1 / (10 * MS)))
        return span[1] - now + wait + 20 * MS if span[0] <= now < span[1] else wait

    def close() -> None:
        end = world.ends.pop(CLIENT, None)
        if end is not None:
            end.close()

    client.think_ns = think
    world.clock.at(span[0] + 150 * MS, close)
    return made.end(world, 4.5, "client_idle connection_closed")


ADVERSE: dict[str, Callable[[Made], Scenario]] = {
    made.__name__: made
    for made in (
        killed_and_back, firewall_forgot, began_in_the_middle, asked_before, other_link,
        sniffer_drops, sniffer_away, mirrored, mirrored_without_ids, mirrored_udp,
        answered_on_the_old, kept_alive, slow_reader, slow_writer, nagle, jukebox,
        delay_of_version_4, slots, one_of_four_far, udp_fragment_lost, offloaded, clock_stepped,
        frozen_client, stopped_client, path_held, checked_ports, slow_then_lost,
        closed_when_idle,
    )
}  # fmt: skip
