"""Names of libraries that are harmless, and names that show the outside world."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules whose results depend on their arguments alone, submodules included.
HARMLESS = _words("""
    __future__ abc array ast base64 binascii bisect calendar cmath collections colorsys concurrent
    contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib email enum errno
    fnmatch fractions functools graphlib hashlib heapq hmac html http.cookies ipaddress itertools
    json keyword math numbers operator pickletools posixpath.genericpath pprint queue quopri re
    reprlib sre_compile sre_constants sre_parse statistics string stringprep struct textwrap token
    tomllib types typing unicodedata urllib.parse warnings weakref xml.sax.saxutils zlib zoneinfo
    _abc _bisect _blake2 _collections _collections_abc _contextvars _csv _datetime _decimal
    _functools _hashlib _heapq _json _md5 _operator _pydatetime _pydecimal _queue _sha1 _sha2
    _sha256 _sha3 _sha512 _sre _statistics _string _struct _strptime _warnings _weakref
    _weakrefset nturl2path
    """)
PATHS = _words("""
    altsep basename commonpath commonprefix curdir defpath devnull dirname extsep isabs join
    normcase normpath pardir pathsep sep split splitdrive splitext splitroot
    """)
LOCKS = _words("Barrier BoundedSemaphore Condition Event Lock RLock Semaphore Thread Timer local")
COMPRESSION = _words("""
    BZ2Compressor BZ2Decompressor LZMACompressor LZMADecompressor LZMAError BadGzipFile compress
    decompress
    """)
# Of these modules no more than the names that are given.
PARTLY_HARMLESS: dict[str, frozenset[str]] = {
    "_codecs": frozenset({"decode", "encode", "lookup"}),
    "_io": frozenset({"BytesIO", "StringIO", "TextIOWrapper", "BufferedReader", "BufferedWriter"}),
    "_thread": frozenset({"LockType", "RLock", "allocate_lock", "lock", "_local"}),
    "bz2": COMPRESSION,
    "codecs": _words("BOM_UTF8 decode encode getdecoder getencoder getreader getwriter lookup"),
    "email.utils": _words(
        "format_datetime formataddr getaddresses parseaddr parsedate parsedate_tz quote"
    ),
    "genericpath": PATHS,
    "gzip": COMPRESSION,
    "http": frozenset({"HTTPMethod", "HTTPStatus"}),
    "io": _words("""
        BufferedIOBase BufferedRandom BufferedReader BufferedWriter BytesIO IOBase RawIOBase
        SEEK_CUR SEEK_END SEEK_SET StringIO TextIOBase TextIOWrapper UnsupportedOperation
        """),
    "logging": _words("""
        CRITICAL DEBUG ERROR Filter Formatter Handler INFO Logger LoggerAdapter NOTSET NullHandler
        StreamHandler WARN WARNING basicConfig captureWarnings critical debug disable error
        exception getLevelName getLogger info log warn warning
        """),
    "lzma": COMPRESSION,
    "ntpath": PATHS,
    "os": _words("""
        PathLike altsep curdir devnull error extsep fsdecode fsencode fspath linesep pardir pathsep
        sep strerror
        """),
    "os.path": PATHS,
    "pathlib": _words("Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath"),
    # Where their classes are from Python 3.13 on.
    "pathlib._local": _words("Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath"),
    "pickle": _words("HIGHEST_PROTOCOL PickleError PicklingError dumps UnpicklingError"),
    "_pickle": _words("PickleError PicklingError dumps UnpicklingError"),
    "posix": frozenset({"fspath", "strerror", "PathLike"}),
    "posixpath": PATHS,
    "random": frozenset({"Random"}),
    "_random": frozenset({"Random"}),
    "sys": _words("""
        api_version byteorder exit float_info getdefaultencoding getrecursionlimit getsizeof
        hash_info hexversion implementation int_info intern maxsize maxunicode setrecursionlimit
        stderr stdout version version_info
        """),
    "threading": LOCKS,
    "time": _words("asctime ctime gmtime localtime mktime sleep strftime strptime struct_time"),
    "uuid": _words("""
        NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 RESERVED_FUTURE RESERVED_MICROSOFT
        RESERVED_NCS RFC_4122 SafeUUID UUID uuid3 uuid5
        """),
    "xml.dom.minidom": frozenset({"Document", "Element", "Node", "parseString"}),
    "xml.etree.ElementTree": _words("""
        Comment Element ParseError QName SubElement TreeBuilder XML XMLID XMLParser canonicalize
        dump fromstring fromstringlist indent iselement register_namespace tostring tostringlist
        """),
    "_elementtree": frozenset({"Element", "SubElement", "TreeBuilder", "XMLParser"}),
}
BUILTINS = frozenset({"id", "input", "open"})
# Distributions whose purpose it is to reach out.
REACHING_OUT = _words("""
    MySQLdb adlfs aiobotocore aiofiles aiohttp anthropic asyncpg azure boto boto3 botocore
    cassandra clickhouse_driver confluent_kafka cx_Oracle decouple deltalake docker dotenv duckdb
    elasticsearch environs faker fsspec gcsfs git google grpc hdfs httplib2 httpx kafka kazoo
    kubernetes ldap3 netifaces openai opensearchpy oracledb paramiko pika portalocker psutil
    psycopg psycopg2 pymongo pymssql pymysql pyodbc redis requests s3fs s3transfer secretstorage
    smart_open snowflake sqlalchemy tldextract trino urllib3 watchdog websocket websockets zmq
    """)
NUMPY_HARMLESS_RANDOM = _words("""
    BitGenerator Generator MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence
    default_rng
    """)
TORCH_RANDOM = _words(
    "bernoulli multinomial normal rand rand_like randint randn randn_like randperm"
)
# What distributions offer besides much that is harmless: their modules, and names in these.
PARTLY_REACHING_OUT: dict[str, frozenset[str]] = {
    "cloudpickle": frozenset({"load", "loads"}),
    "dill": frozenset({"load", "loads", "load_module", "load_session"}),
    "joblib": frozenset({"Memory", "load", "cpu_count", "hash"}),
    "numpy": _words("""
        DataSource fromfile fromregex genfromtxt load loadtxt memmap open_memmap show_config
        """),
    "pandas": frozenset({"ExcelFile", "HDFStore", "TextFileReader", "get_handle"}),
    "polars": frozenset({"SQLContext"}),
    "pyarrow": _words("""
        OSFile call_function cpu_count create_memory_map csv dataset feather flight fs
        input_stream json memory_map open_file open_stream orc parquet random
        """),
    "pyspark": _words("""
        BarrierTaskContext BarrierTaskInfo InheritableThread SparkConf SparkContext SparkFiles
        SparkSession TaskContext inheritable_thread_target loads
        """),
    "scipy": frozenset({"loadmat", "mmread", "netcdf_file"}),
    "torch": frozenset({"load", "hub", "cuda", "get_rng_state", "initial_seed"}) | TORCH_RANDOM,
}
READER = re.compile(r"(read|scan)_[a-z]|load_(dataset|iris|model|npz)|fetch_")

# Called with a literal seed, or the time, they give the same to everyone.
SEEDED: dict[str, tuple[int, str]] = {
    **dict.fromkeys(
        _words("MT19937 PCG64 PCG64DXSM Philox Random RandomState SFC64 SeedSequence default_rng"),
        (0, "seed"),
    ),
    **dict.fromkeys(("asctime", "ctime", "gmtime", "localtime"), (0, "")),
    "strftime": (1, ""),
}
SEEDED_MODULES = frozenset({"numpy", "random", "_random", "time"})
GIVEN = frozenset({"asctime", "ctime", "gmtime", "localtime", "strftime"})
WRITING_MODES = frozenset(mode + binary for mode in ("a", "w", "x") for binary in ("", "b", "t"))

# Methods that tell the moment, whatever they are called on.
MOMENT = frozenset({"now", "today", "utcnow"})
MOMENT_MODULES = frozenset({"datetime", "_datetime", "pandas", "arrow", "pendulum"})
MOMENT_TEXTS = frozenset({"now", "today"})
MOMENT_TEXT_MODULES = frozenset({"numpy", "pandas"})
FILE_METHODS = _words("""
    absolute chmod cwd exists expanduser expandvars glob group hardlink_to home is_block_device
    is_char_device is_dir is_fifo is_file is_junction is_mount is_socket is_symlink iterdir lchmod
    lstat mkdir open owner read_bytes read_text readlink resolve rglob rmdir samefile stat
    symlink_to touch unlink walk write_bytes write_text
    """)
CONCRETE_PATHS = frozenset(
    f"{module}.{name}"
    for module in ("pathlib", "pathlib._local")
    for name in ("Path", "PosixPath", "WindowsPath")
)
# Only their side effects count, which no kept result has.
FILE_EFFECTS = frozenset({"chmod", "lchmod", "mkdir", "rmdir", "symlink_to", "touch", "unlink"})
DRAWING = frozenset({"rvs", "sample"})
SEED_KEYWORDS = ("random_state", "seed")
LOCAL_TIME = _words(
    "astimezone asctime ctime fromtimestamp localtime mktime strftime timestamp tzset"
)
