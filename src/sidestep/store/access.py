"""How object stores are reached: credentials, endpoint and region, as Spark's Hadoop configuration says.

Who runs sidestep on Spark has told Spark already: ``fs.s3a.access.key`` and the like, for all buckets or for one
(``fs.s3a.bucket.NAME.access.key``). The same settings serve the two other programs that reach the store, pyarrow for
files and ``deltalake`` for the log. Where nothing is set, both find what the environment gives them, as they always do.

Settings are asked for where they are needed, since session tokens change, and are sent to Spark's workers within the
tasks, as Spark sends its own. They are never written, logged or shown.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
from pyarrow import fs

PREFIX = "fs.s3a."
NAMES = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    "aws.credentials.provider",
)
"""What is taken from Hadoop's settings, each after ``fs.s3a.`` or after ``fs.s3a.bucket.NAME.``."""
SECONDS = 1.0
"""How long settings hold before they are asked for again."""
ATTEMPTS = 10
"""How often a request is made that the store throttles, or whose connection is lost."""
_AMAZON = re.compile(r"s3[.-](?:dualstack\.)?(?:(?P<region>[a-z0-9-]+)\.)?amazonaws\.com(?:\.cn)?")


_PASSING = (
    "INTERNAL_FAILURE",
    "SLOW_DOWN",
    "SERVICE_UNAVAILABLE",
    "NETWORK_CONNECTION",
    "REQUEST_TIMEOUT",
    "THROTTLING",
)
"""What pyarrow says of requests that may well succeed later."""


class PatientReader:
    """A file in a store, each part of which is asked for again if the store is busy, or the connection is lost.

    pyarrow makes such requests again by itself, but for one: it has room for the part that it asked for, and where the
    words of a store that says "slow down" take more than that, it fails.
    """

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._size = int(file.size())
        self._at = 0

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def close(self) -> None:
        self._file.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        part = self._read_at(wanted, self._at) if wanted else b""
        self._at += len(part)
        return part

    def _read_at(self, size: int, offset: int) -> bytes:
        for attempt in range(ATTEMPTS):
            try:
                return bytes(self._file.read_at(size, offset))
            except OSError as error:
                if attempt == ATTEMPTS - 1 or not any(word in str(error) for word in _PASSING):
                    raise
                time.sleep(random.uniform(0, min(5.0, 0.05 * 2**attempt)))
        raise AssertionError("every attempt returns or raises")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of object stores by their names in Hadoop, to be carried to a worker."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class S3Access:
    """How a bucket is reached; what is None is left to the environment."""

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    scheme: str = "https"
    endpoint: str | None = None
    """Host and port, of a store that is not Amazon's."""
    region: str | None = None
    path_style: bool = False

    @property
    def stated(self) -> bool:
        """Whether the settings say anything that the environment might not."""
        return bool(self.access_key or self.anonymous or self.endpoint or self.region)

    def filesystem(self, bucket: str) -> fs.FileSystem:
        """pyarrow's way to the store."""
        region = self.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region is None:
            region = "us-east-1" if self.endpoint else _region_of(bucket)
        return fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            session_token=self.session_token,
            anonymous=self.anonymous,
            region=region,
            scheme=self.scheme,
            endpoint_override=self.endpoint,
            force_virtual_addressing=bool(self.endpoint) and not self.path_style,
            allow_delayed_open=True,  # a small file is one request, not three
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        )

    def delta_options(self, bucket: str) -> dict[str, str]:
        """The options of ``deltalake`` that say the same. It writes a version on the condition that there is none."""
        options = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
            "AWS_REGION": self.region or ("us-east-1" if self.endpoint else None),
            "AWS_SKIP_SIGNATURE": "true" if self.anonymous else None,
            "AWS_ALLOW_HTTP": "true" if self.scheme == "http" else None,
        }
        if self.endpoint:
            host = self.endpoint if self.path_style else f"{bucket}.{self.endpoint}"
            options["AWS_ENDPOINT_URL"] = f"{self.scheme}://{host}"
            options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = str(not self.path_style).lower()
        return {name: value for name, value in options.items() if value is not None}


def access_of(settings: Mapping[str, str], bucket: str) -> S3Access:
    """What Hadoop's settings say of a bucket: those of its own first.

    >>> said = {"fs.s3a.endpoint": "http://127.0.0.1:9000", "fs.s3a.bucket.b.endpoint": "s3.eu-west-1.amazonaws.com"}
    >>> access_of(said, "a").endpoint, access_of(said, "b").region
    ('127.0.0.1:9000', 'eu-west-1')
    """

    def stated(name: str) -> str | None:
        for full in (f"{PREFIX}bucket.{bucket}.{name}", f"{PREFIX}{name}"):
            value = settings.get(full, "").strip()
            if value:
                return value
        return None

    scheme = "http" if (stated("connection.ssl.enabled") or "true").lower() == "false" else "https"
    endpoint, region = stated("endpoint"), stated("endpoint.region")
    if endpoint is not None and "://" in endpoint:
        scheme, _, endpoint = endpoint.partition("://")
    if endpoint is not None:
        endpoint = endpoint.rstrip("/")
        amazon = _AMAZON.fullmatch(endpoint)
        if amazon is not None:
            endpoint, region = None, region or amazon["region"]
    key, secret = stated("access.key"), stated("secret.key")
    both = key is not None and secret is not None
    return S3Access(
        access_key=key if both else None,
        secret_key=secret if both else None,
        session_token=stated("session.token") if both else None,
        anonymous=(stated("aws.credentials.provider") or "").endswith("AnonymousAWSCredentialsProvider"),
        scheme=scheme,
        endpoint=endpoint,
        region=region,
        path_style=(stated("path.style.access") or "false").lower() == "true",
    )


class _Current:
    """The settings of this process: those of the Spark session that was used last, or what a worker was given."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ask: Callable[[], StoreSettings | None] = lambda: None
        self.known = StoreSettings()
        self.asked = float("-inf")


_current = _Current()


def use_settings(settings: StoreSettings | Callable[[], StoreSettings | None]) -> None:
    """Have stores reached by these settings from now on, or by those that a function gives; None: as before."""
    with _current.lock:
        _current.ask = settings if callable(settings) else lambda: settings
        _current.asked = float("-inf")


def store_settings() -> StoreSettings:
    """The settings by which stores are reached now."""
    with _current.lock:
        ask, known, fresh = _current.ask, _current.known, time.monotonic() - _current.asked < SECONDS
    if fresh:
        return known
    settings = ask()  # outside the lock: it asks the JVM
    with _current.lock:
        if settings is not None:
            _current.known = settings
        if _current.ask is ask:
            _current.asked = time.monotonic()
        return _current.known


def s3_access(bucket: str) -> S3Access:
    return access_of(store_settings().values, bucket)


def s3_filesystem(bucket: str) -> fs.FileSystem:
    """The file system of a bucket, made once for each way of reaching it."""
    access = s3_access(bucket)
    return _filesystem(access, bucket) if access.stated else fs.FileSystem.from_uri(f"s3://{bucket}/")[0]


@lru_cache(maxsize=64)
def _filesystem(access: S3Access, bucket: str) -> fs.FileSystem:
    return access.filesystem(bucket)


def _region_of(bucket: str) -> str | None:
    try:
        return str(fs.resolve_s3_region(bucket))
    except (pa.ArrowException, OSError):
        return None
