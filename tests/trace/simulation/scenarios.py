"""What is planted in simulated captures: hosts, connections and paths that fail as they do."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.trace.generator import nfs3
from tests.trace.generator.link import Endpoint

from .hosts import SERVER, Asked, Client
from .made import CLIENT, Made, Scenario, four, has_data, joined, lose_one, pauses
from .network import MS, US, Segment


def calm(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    return made.end(world, 3)


def frozen_host(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    length = made.rng.uniform(0.6, 2.5)
    world.plan(world.frozen, made.rng.uniform(0.6, 1.4), length)
    return made.end(world, 5, "needless_retransmission server_stalled", "server_host_frozen")


def stopped_process(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    begin, length = made.rng.uniform(0.6, 1.4), made.rng.uniform(0.3, 2)
    world.plan(world.stopped, begin, length)
    # A shorter wait of one call may be that for an answer that was lost, but at the server.
    sure = length > 0.55 or made.point == "server"
    may = "server_stalled time_in_server server_process_slow"
    return made.end(world, 4, may, "server_process_slow" if sure else "")


def dead_process(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    world.plan(world.dead, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.3, 2))
    return made.end(world, 4.5, "connection_reset sent_again", "server_restarted")


def rebooted_host(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    world.plan(world.down, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.7, 2))
    # Anything on the way that forgot the connection answers with the same RST.
    return made.end(world, 5.5, "server_restarted sent_again", "connection_reset")


def reset_connection(made: Made) -> Scenario:
    """Something on the way resets it in the server's name."""
    world = made.world()
    client = made.client(world, reconnect_ns=round(made.rng.uniform(80, 400) * MS))

    def reset() -> None:
        end = world.ends.pop(CLIENT, None)
        if end is not None:
            end.abort()

    world.clock.at(world.at(made.rng.uniform(0.6, 1.4)), reset)
    del client
    return made.end(world, 3, "sent_again", "connection_reset")


def lost_request(made: Made) -> Scenario:
    """One at a time, so that nothing behind it shows the hole.

    The acknowledgement that it carried is lost, too: the server sends its last reply again.
    """
    world = made.world()
    made.client(world, depth=1)
    lose_one(lambda w: w.to_server, made.rng.uniform(0.6, 1.4), has_data)(world)
    must = "network_loss" if made.point == "client" else ""
    return made.end(world, 3, "network_loss needless_retransmission", must)


def lost_reply(made: Made) -> Scenario:
    world = made.world()
    made.client(world, depth=1)
    lose_one(lambda w: w.to_client, made.rng.uniform(0.6, 1.4), has_data)(world)
    return made.end(world, 3, "network_loss needless_retransmission", "network_loss")


def lost_in_bursts(made: Made) -> Scenario:
    """Large READs: a segment is lost amid others, and sent again at once or after a timeout."""
    world = made.world()
    rng = world.rng

    def make() -> object:
        return nfs3.read(rng.choice(world.files), rng.randrange(1 << 19), 16_384)

    made.client(world, depth=2, make=make)
    drop = random.Random(made.seed)
    world.to_client.lost = lambda segment, _now: len(segment.data) > 0 and drop.random() < 0.004
    return made.end(world, 1.6, "network_loss needless_retransmission")


def outage(made: Made) -> Scenario:
    world = made.world()
    made.client(world)
    begin = made.rng.uniform(0.6, 1.4)
    span = (world.at(begin), world.at(begin + made.rng.uniform(0.4, 2)))
    for path in (world.to_server, world.to_client):
        path.lost = lambda _segment, now_ns: span[0] <= now_ns < span[1]
    must = "network_loss" if made.point == "client" else ""
    return made.end(world, 5.5, "network_loss needless_retransmission", must)


def delayed_path(made: Made) -> Scenario:
    """The way to the server holds packets back for longer than a timeout, and loses none."""
    world = made.world()
    made.client(world, depth=1)
    begin = made.rng.uniform(0.6, 1.4)
    span = (world.at(begin), world.at(begin + 0.05))
    hold = round(made.rng.uniform(230, 330) * MS)
    world.to_server.extra_ns = lambda _s, now_ns: hold if span[0] <= now_ns < span[1] else 0
    return made.end(world, 3, must="needless_retransmission")


def reordered(made: Made) -> Scenario:
    world = made.world()
    rng = world.rng

    def make() -> object:
        return nfs3.read(rng.choice(world.files), rng.randrange(1 << 19), 8_192)

    made.client(world, depth=2, make=make)
    world.to_client.extra_ns = lambda _s, _now: 300 * US if rng.random() < 0.01 else 0
    return made.end(world, 1.6, "needless_retransmission")


def idle(made: Made) -> Scenario:
    world = pauses(made, lambda rng: 0.06 + rng.expovariate(2.5), 20)
    return made.end(world, 20, "client_idle", "client_idle" if made.point == "client" else "")


def idle_heavy(made: Made) -> Scenario:
    world = pauses(made, lambda rng: min(0.06 * rng.paretovariate(1.2), 12), 25)
    return made.end(world, 25, "client_idle", "client_idle" if made.point == "client" else "")


def idle_lognormal(made: Made) -> Scenario:
    world = pauses(made, lambda rng: min(rng.lognormvariate(-1.2, 1.0), 10), 25)
    return made.end(world, 25, "client_idle", "client_idle" if made.point == "client" else "")


def idle_periodic(made: Made) -> Scenario:
    """A timer of the client: a burst each period."""
    world = made.world()
    period = made.rng.uniform(0.5, 1.2)
    rng = world.rng

    def think() -> int:
        now = (world.clock.now_ns - world.at(0)) / 1e9
        phase = now % period
        if phase > period * 0.4:
            return round((period - phase) * 1e9)
        return round(rng.expovariate(1 / (2 * MS)))

    made.client(world, depth=1, think_ns=think)
    must = "period client_idle" if made.point == "client" else "period"
    return made.end(world, 25 * period, "client_idle", must)


def draining(made: Made) -> Scenario:
    """The server's process stands still each period."""
    world = made.world()
    made.client(world, depth=2)
    period, length = made.rng.uniform(0.8, 1.4), made.rng.uniform(0.25, 0.4)
    for cycle in range(22):
        jitter = made.rng.uniform(-0.03, 0.03) * period
        world.plan(world.stopped, 0.3 + cycle * period + jitter, length)
    return made.end(
        world, 0.3 + 22 * period, "server_stalled time_in_server", "server_process_slow period"
    )


def stalls_at_random(made: Made) -> Scenario:
    world = made.world()
    made.client(world, depth=2)
    now = 0.3
    while now < 22:
        length = made.rng.uniform(0.15, 0.5)
        world.plan(world.stopped, now, length)
        now += length + made.rng.expovariate(1.2)
    return made.end(world, 24, "server_stalled time_in_server", "server_process_slow")


def four_connections(made: Made) -> Scenario:
    world, _ = four(made)
    return made.end(world, 3)


def four_stopped(made: Made) -> Scenario:
    world, _ = four(made)
    world.plan(world.stopped, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.3, 2))
    return made.end(world, 4, "server_stalled time_in_server", "server_process_slow")


def one_of_four_held(made: Made) -> Scenario:
    """The server leaves one of them alone, and serves the others."""
    world, ends = four(made)
    held = world.held.setdefault(made.rng.choice(ends), [])
    world.plan(held, made.rng.uniform(0.6, 1.4), made.rng.uniform(0.3, 2))
    return made.end(world, 4, "", "connection_waited")


def one_of_four_lost(made: Made) -> Scenario:
    """A call on one of them is lost, and sent again by TCP."""
    world, _ = four(made)
    lose_one(lambda w: w.to_server, made.rng.uniform(0.6, 1.4), has_data)(world)
    return made.end(world, 3, "network_loss connection_waited needless_retransmission")


def health(made: Made) -> Scenario:
    """Short connections that all begin with the same transaction ids and calls."""
    world = made.world()
    check = world.files[0]
    base = made.rng.getrandbits(30)
    for number in range(25):

        def begin(port: int = 700 + number) -> None:
            client = Client(world, Endpoint(CLIENT.host, port), 0, xid=base)

            def ask(left: int) -> None:
                if left:
                    client.ask(nfs3.getattr_(check), lambda: ask(left - 1))
                elif client.end is not None:
                    client.end.close()

            world.clock.after(5 * MS, lambda: ask(3))

        world.clock.at(world.at(0.8 * number), begin)
    return made.end(world, 20, "client_idle connection_closed")


def one_address(made: Made) -> Scenario:
    """Two clients behind one address: the same transaction ids, calls and times, two ports."""
    world = made.world()
    base, node = made.rng.getrandbits(30), world.files[0]
    for port in (901, 902):
        rng = random.Random(made.seed)
        pause = lambda rng=rng: round(rng.expovariate(1 / (12 * MS)))  # noqa: E731
        make = lambda node=node: nfs3.getattr_(node)  # noqa: E731
        Client(world, Endpoint(CLIENT.host, port), 1, think_ns=pause, make=make, xid=base)
    return made.end(world, 3)


def cut_replies(made: Made) -> Scenario:
    """The snapshot length cuts the fronts of replies away; then the client is idle."""
    world = made.world()
    rng = world.rng
    size = made.rng.choice([300, 500, 700])

    def make() -> object:
        return nfs3.read(rng.choice(world.files), rng.randrange(1 << 19), size)

    stop = world.at(1.0)
    client = made.client(world, depth=4, make=make, think_ns=lambda: 200 * US)
    client.until_ns = stop
    world.service_ns = lambda w: 400 * US
    frames = joined(world.run(2.5), SERVER.port, 6000)
    return Scenario(
        made.name, made.point, made.seed, frames, frozenset({"client_idle"}), snaplen=160
    )


def never_answered(made: Made) -> Scenario:
    world = pauses(made, lambda rng: 0.3 + rng.expovariate(2), 15)
    client = world.clients[CLIENT]
    node = world.files[0]
    stuck: list[Asked] = []
    world.never = lambda asked: asked in stuck

    def ask() -> None:
        stuck.append(client.ask(nfs3.read(node, 0, 512)))

    world.clock.at(world.at(0.02), ask)
    return made.end(world, 15, "unanswered", "unanswered")


def udp_lost_request(made: Made) -> Scenario:
    world = made.world()
    made.client(world, udp=True, depth=1)
    lose_one(lambda w: w.to_server, made.rng.uniform(0.6, 1.4), has_data)(world)
    must = "network_loss" if made.point == "client" else ""
    return made.end(world, 4, "network_loss sent_again", must)


def udp_lost_reply(made: Made) -> Scenario:
    world = made.world()
    made.client(world, udp=True, depth=1)
    lose_one(lambda w: w.to_client, made.rng.uniform(0.6, 1.4), has_data)(world)
    return made.end(world, 4, "network_loss sent_again", "network_loss")


def udp_late(made: Made) -> Scenario:
    """The server answers both sends, the first one late."""
    world = made.world(answer_again=made.rng.random() < 0.7)
    made.client(world, udp=True, depth=1)
    world.plan(world.stopped, made.rng.uniform(0.6, 1.4), made.rng.uniform(1.15, 2.0))
    return made.end(world, 5, "server_stalled sent_again server_process_slow", "server_stalled")


def one_way(made: Made, client: bool) -> Scenario:
    world = made.world()
    made.client(world)
    (world.to_client if client else world.to_server).seen = False
    world.plan(world.stopped, 1.0, 0.5)
    return made.end(world, 2.5, "capture_lossy", "" if client else "replies_only")


def calls_only(made: Made) -> Scenario:
    return one_way(made, True)


def replies_only(made: Made) -> Scenario:
    return one_way(made, False)


def bufferbloat(made: Made) -> Scenario:
    """Bulk traffic beside fills the queue to the client or the server: replies wait in it."""
    world = made.world()
    made.client(world, depth=1, think_ns=lambda: 3 * MS)
    rng, level = world.rng, [0.0]
    path = world.rng.choice([world.to_server, world.to_client])
    order = {"last": 0}

    def extra(_segment: Segment, now_ns: int) -> int:
        seconds = (now_ns - world.at(0)) / 1e9
        level[0] = 0.97 * level[0] + 0.03 * rng.expovariate(1)
        held = round((0.5 + level[0]) * 12 * MS) if seconds > 0.2 else 0
        # A queue keeps the order.
        at = max(now_ns + held, order["last"] + 1000)
        order["last"] = at
        return at - now_ns

    path.extra_ns = extra

    choice = random.Random(made.seed)

    def second() -> object:
        return nfs3.write(choice.choice(world.files), 0, 20_000)

    # Larger writes have the server acknowledge at once.
    Client(world, Endpoint(CLIENT.host, 802), 1, make=second, think_ns=lambda: 4 * MS)
    return made.end(world, 5)


def slow_server(made: Made) -> Scenario:
    service = made.rng.uniform(5, 25) * MS
    world = made.world(service_ns=lambda w: round(w.rng.lognormvariate(0, 0.2) * service))
    made.client(world, depth=2)
    must = "time_in_server" if made.point != "server" else ""
    return made.end(world, 4, "time_in_server", must)


def one_of_several(made: Made) -> Scenario:
    """A reply is lost on one connection of four; the others go on."""
    world = made.world()
    ends = [Endpoint(CLIENT.host, 801 + number) for number in range(4)]
    for end in ends:
        Client(world, end, 1, think_ns=lambda: round(world.rng.expovariate(1 / (10 * MS))))
    wanted = lambda s: has_data(s) and s.destination == ends[1]  # noqa: E731
    lose_one(lambda w: w.to_client, made.rng.uniform(0.6, 1.4), wanted)(world)
    return made.end(world, 3, "network_loss needless_retransmission")


def beside_tls(made: Made) -> Scenario:
    """A connection in clear that rests, and one under TLS that does not."""
    world = pauses(made, lambda rng: 0.1 + rng.expovariate(3), 8)
    hidden = Client(world, Endpoint(CLIENT.host, 990), 0)

    def exchange() -> None:
        rng = world.rng
        if hidden.end is not None and hidden.end.state == "open":
            body = rng.randbytes(rng.randrange(60, 300))
            hidden.end.write(b"\x17\x03\x03" + len(body).to_bytes(2, "big") + body, None)
            server = world.ends.get(hidden.here)
            if server is not None and server.state == "open":
                server.received = lambda _message: server.write(
                    b"\x17\x03\x03" + len(body).to_bytes(2, "big") + body, None
                )
                hidden.end.received = lambda _message: None
        world.clock.after(round(rng.uniform(3, 12) * MS), exchange)

    world.clock.after(20 * MS, exchange)
    return made.end(world, 8)


FAILURES: dict[str, Callable[[Made], Scenario]] = {
    made.__name__: made
    for made in (
        calm, frozen_host, stopped_process, dead_process, rebooted_host, reset_connection,
        lost_request, lost_reply, lost_in_bursts, outage, delayed_path, reordered, idle,
        idle_heavy, idle_lognormal, idle_periodic, draining, stalls_at_random, health, one_address,
        four_connections, four_stopped, one_of_four_held, one_of_four_lost,
        cut_replies, never_answered, udp_lost_request, udp_lost_reply, udp_late, calls_only,
        replies_only, bufferbloat, slow_server, one_of_several, beside_tls,
    )
}  # fmt: skip
