"""What a function may use and still be known by its code: what gives the same value for the same arguments, anywhere.

This is a list of what is allowed, not of what is forbidden: a module that reads files, asks a clock or keeps a state
need not be known here to be kept out. What a function gets as arguments are plain values (numbers, texts, dates, lists,
dictionaries, rows), and all that is listed here gives plain values again, or iterators, patterns and digests. So the
objects whose attributes code may ask for are of few types, and of those the few attributes that are not pure are named.
"""

from __future__ import annotations

import builtins
import re
import sys
import types
from collections.abc import Mapping

import numpy as np


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


PURE_BUILTINS = _names(
    """
    abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format frozenset
    hex int isinstance issubclass iter len list map max min next oct ord pow print range repr reversed round set slice
    sorted str sum tuple type zip Ellipsis NotImplemented
    """
) | {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
"""Names that Python always knows. Not among them is what reaches outside (open, input, __import__), what runs text
(eval, exec), what differs between processes (hash, id), and what reaches anything by its name (getattr, globals)."""

IMPURE_ATTRIBUTES = _names(
    """
    ag_frame astimezone cache_clear cache_info cr_frame ctypes default_rng environ fromtimestamp getenv getrandbits
    gi_frame localtime now random read_csv read_parquet tb_frame timestamp today urlopen utcnow uuid1 uuid4
    """
)
"""Names that are not asked of any object: clocks and local time of dates, frames of generators, addresses."""


PURE: Mapping[str, frozenset[str]] = {
    "base64": _names(
        """
        a85decode a85encode b16decode b16encode b32decode b32encode b64decode b64encode b85decode b85encode
        decodebytes encodebytes standard_b64decode standard_b64encode urlsafe_b64decode urlsafe_b64encode
        """
    ),
    "binascii": _names("a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 crc_hqx hexlify unhexlify Error"),
    "bisect": _names("bisect bisect_left bisect_right insort insort_left insort_right"),
    "calendar": _names("isleap leapdays monthrange timegm weekday"),
    "cmath": _names(
        """
        acos acosh asin asinh atan atanh cos cosh e exp inf isclose isfinite isinf isnan log log10 nan phase pi polar
        rect sin sinh sqrt tan tanh tau
        """
    ),
    "collections": _names("ChainMap Counter OrderedDict defaultdict deque"),
    "copy": _names("copy deepcopy"),
    "datetime": _names("MAXYEAR MINYEAR UTC date datetime time timedelta timezone"),
    "decimal": _names(
        """
        Decimal DivisionByZero Inexact InvalidOperation Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN ROUND_FLOOR
        ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP
        """
    ),
    "difflib": _names("SequenceMatcher get_close_matches"),
    "fractions": _names("Fraction"),
    "functools": _names("cmp_to_key partial reduce"),
    "hashlib": _names("blake2b blake2s md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512"),
    "heapq": _names("heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest"),
    "hmac": _names("compare_digest digest new"),
    "html": _names("escape unescape"),
    "ipaddress": _names(
        """
        AddressValueError IPv4Address IPv4Network IPv6Address IPv6Network NetmaskValueError ip_address ip_network
        """
    ),
    "itertools": _names(
        """
        accumulate chain combinations combinations_with_replacement compress count cycle dropwhile filterfalse groupby
        islice pairwise permutations product repeat starmap takewhile tee zip_longest
        """
    ),
    "json": _names("JSONDecodeError dumps loads"),
    "math": _names(
        """
        acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 expm1
        fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma
        log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt tan tanh tau trunc ulp
        """
    ),
    "numpy": frozenset(name for name, value in vars(np).items() if isinstance(value, np.ufunc))
    | _names(
        """
        array asarray bool_ e float16 float32 float64 inf int16 int32 int64 int8 nan ndarray pi uint16 uint32 uint64
        uint8
        """
    ),
    "operator": _names(
        """
        abs add and_ concat contains countOf eq floordiv ge getitem gt index indexOf inv invert is_ is_not itemgetter le
        lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor
        """
    ),
    "pandas": _names("isna isnull notna notnull"),
    "pyspark.sql": _names("Row"),
    "pyspark.sql.types": _names("Row"),
    "re": _names(
        """
        A ASCII DOTALL I IGNORECASE M MULTILINE S U UNICODE VERBOSE X compile error escape findall finditer fullmatch
        match search split sub subn
        """
    ),
    "statistics": _names(
        """
        StatisticsError fmean geometric_mean harmonic_mean mean median median_high median_low mode multimode pstdev
        pvariance stdev variance
        """
    ),
    "string": _names(
        """
        ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable punctuation
        whitespace
        """
    ),
    "struct": _names("calcsize error pack unpack unpack_from"),
    "textwrap": _names("dedent fill indent shorten wrap"),
    "typing": _names("cast"),
    "unicodedata": _names(
        """
        bidirectional category combining decimal decomposition digit east_asian_width is_normalized lookup mirrored name
        normalize numeric
        """
    ),
    "urllib.parse": _names(
        """
        parse_qs parse_qsl quote quote_from_bytes quote_plus unquote unquote_plus unquote_to_bytes urldefrag urlencode
        urljoin urlparse urlsplit urlunparse urlunsplit
        """
    ),
    "uuid": _names("NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid5"),
    "zlib": _names("adler32 compress crc32 decompress error"),
}
"""Modules, and what of each gives the same value for the same arguments, in every process that has its version."""


def is_pure(module: str, name: str) -> bool:
    """
    >>> is_pure("math", "sqrt"), is_pure("time", "time"), is_pure("codecs", "open")
    (True, False, False)
    """
    return name in PURE.get(module, ()) and _is_genuine(getattr(sys.modules.get(module), name, None), module)


def pure_name(value: object) -> str | None:
    """Under which name a function or class is among those that are pure; None if it is not.

    >>> from operator import add
    >>> import time
    >>> pure_name(add), pure_name(time.time)
    ('operator.add', None)
    """
    for module, names in PURE.items():
        held = sys.modules.get(module)
        for name in names if held is not None else ():
            if getattr(held, name, None) is value and _is_genuine(value, module):
                return f"{module}.{name}"
    return None


def _is_genuine(value: object, module: str) -> bool:
    """Whether a function that a module holds is its own, and not one that somebody has put into its place."""
    if not isinstance(value, types.FunctionType):
        return True
    home = str(value.__globals__.get("__name__", "")).partition(".")[0]
    return home.lstrip("_") == module.partition(".")[0]
