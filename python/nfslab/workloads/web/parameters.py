"""What `[workload]` may hold with `kind = "web"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from nfslab.quantities import Duration, Size
from nfslab.workloads.base import WorkloadParameters

if TYPE_CHECKING:
    from typing import Self

OPS_PER_CONNECTION: Final = 400_000 / 122_000
"""Requests a second that a connection is taken to make, where the file set's size is worked out."""
SHARES_OFF: Final = 1e-9
"""How far the shares of a mix may be off 1: as the core has it."""
ADDRESS: Final = "http://"
OF_NGINX: Final = ("sendfile", "aio", "directio", "open_file_cache", "keepalive")
OF_EMBEDDED: Final = ("readers", "bandwidth")

Kind = Literal["static_get", "dynamic_get", "cgi_get", "ad_get", "post"]
Share = Annotated[float, Field(ge=0, le=1)]
Connections = Annotated[int, Field(ge=1, le=1 << 17)]


class WebParameters(WorkloadParameters):
    """Settings of the server are axes; one that the chosen server does not have is refused."""

    data: str
    """Role: the target of the documents."""
    log: str | None = None
    """Role: the target of the access log and the log of POSTs; default: that of the documents."""
    server: str = "embedded"
    """"embedded" (needs no installation), "nginx", or http://host:port of one that runs."""
    workers: int = Field(default=2, ge=1, le=512)
    """Processes of nginx, threads of the embedded server."""
    access_log: bool = False
    """Whether each request is logged (combined format)."""
    sync_posts: bool = False
    """Whether a POST is answered only after fdatasync of its line."""
    sendfile: bool | None = None
    """nginx; default on. So are the next four, with nginx's own defaults."""
    aio: Literal["off", "threads"] | None = None
    directio: Size | None = None
    """Files of that size and larger are read past the page cache; 0: none."""
    open_file_cache: int | None = Field(default=None, ge=0)
    """Files that nginx keeps open; 0: none."""
    keepalive: bool | None = None
    readers: int | None = Field(default=None, ge=1, le=512)
    """Embedded server: most threads that read files."""
    bandwidth: Size | None = Field(default=None, ge=1)
    """Embedded server: bytes a second of all that is sent; a limit that is known."""

    load: Literal["connections", "line_speed", "open", "closed"] = "connections"
    """The most connections that get their line's speed, found by search; so many of them; requests
    at a rate of their own; connections that wait for nothing but the reply."""
    connections: Connections = 50
    """Of all loads; open: at most; where they are searched for: the first step."""
    connections_max: Connections = 4000
    """Bound of the search."""
    precision: float = Field(default=0.025, ge=0.001, le=1)
    """Of the search: a number larger by this share did not conform."""
    step: Duration = Field(default=5.0, gt=0)
    """Of the search: seconds of each step, behind its warm-up."""
    rate: float | None = Field(default=None, gt=0, le=1e7)
    """Open load: requests a second."""
    arrivals: Literal["poisson", "uniform"] = "poisson"
    line_bits_per_s: int = Field(default=400_000, ge=1000, le=10**11)
    """Speed of each connection's line, which is read no faster."""
    conforming_bits_per_s: int = Field(default=320_000, ge=1)
    """What a connection has to get to conform."""
    conforming_share: float = Field(default=0.95, gt=0, le=1)
    """Of the connections, how many have to conform in the search."""
    mix: dict[Kind, Share] | None = None
    """Shares of the kinds of requests; default: 0.7, 0.1245, 0.0015, 0.126, 0.048."""
    close_share: Share = 0.3
    """Of requests after which the connection is closed."""
    verify_share: Share = 0.1
    """Of replies, how many are compared byte by byte; status and length always."""
    directories: int | None = Field(default=None, ge=1, le=1 << 16)
    """36 files and 5.1 MB each; default: by the load, 25 + (requests a second) / 5."""
    content: int = Field(default=1, ge=0, lt=2**63)
    """Seed of the documents' bytes; what is asked for is drawn by the run's own."""
    warm_up: Duration = Field(default=2.0, ge=0)
    duration: Duration = Field(default=10.0, gt=0)
    """Of the timed part behind the warm-up."""
    timeout: Duration = Field(default=30.0, ge=0.01)
    """After which a request is lost; the time of its bytes on a line comes on top."""
    threads: int = Field(default=1, ge=1, le=64)
    """Of the generator."""
    errors_max: Share = 0.001
    """Of the requests of the timed part, how many may fail: beyond, the run does not count."""

    @model_validator(mode="after")
    def _combination(self) -> Self:
        if self.server not in ("embedded", "nginx"):
            self._check_address()
        for names, server in ((OF_NGINX, "nginx"), (OF_EMBEDDED, "embedded")):
            given = [name for name in names if getattr(self, name) is not None]
            if given and self.server != server:
                raise ValueError(f'{", ".join(given)}: of server = "{server}" alone')
        if (self.rate is not None) != (self.load == "open"):
            raise ValueError('rate belongs to load = "open", which needs it')
        if self.connections_max < self.connections and self.load == "connections":
            raise ValueError("connections_max is not below connections, where the search begins")
        if self.conforming_bits_per_s > self.line_bits_per_s:
            raise ValueError("conforming_bits_per_s is not above line_bits_per_s")
        if self.mix is not None and abs(sum(self.mix.values()) - 1) > SHARES_OFF:
            raise ValueError(f"the shares of mix sum to {sum(self.mix.values()):g}, not to 1")
        if self.threads > self.connections:
            raise ValueError("threads is not above connections: each needs one")
        return self

    def _check_address(self) -> None:
        words = f'{self.server!r} is no server: "embedded", "nginx" or http://host:port'
        if not self.server.startswith(ADDRESS):
            raise ValueError(words)
        parts = urlsplit(self.server)
        try:
            right = parts.hostname and parts.path in ("", "/") and not parts.query and parts.port
        except ValueError:
            right = False
        if not right:
            raise ValueError(words)

    @property
    def is_external(self) -> bool:
        """Whether the server runs already."""
        return self.server.startswith(ADDRESS)

    @property
    def on_lines(self) -> bool:
        """Whether connections have a line's speed."""
        return self.load in ("connections", "line_speed")

    @property
    def most_connections(self) -> int:
        """At once, at any time of the run."""
        return self.connections_max if self.load == "connections" else self.connections

    def set_directories(self) -> int:
        """As given, or by the load."""
        if self.directories is not None:
            return self.directories
        per_s = self.rate or self.most_connections * OPS_PER_CONNECTION
        return min(25 + int(per_s / 5), 1 << 16)
