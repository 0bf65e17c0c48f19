"""The topic of a docstring: Python's own standard library is the corpus, and is on every machine."""

import ast
import platform
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hf_attn.tasks.base import WorkedExample
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.text.corpus import Row, leave_out_contradictions
from hf_attn.tasks.text.text_classification import DOCUMENT_MODEL, PRODUCT_MODEL, TextClassification
from hf_attn.utils.disk_cache import cached_rows

FEWEST_WORDS = 4  # "Return self." says nothing of a topic
# topic → packages and modules of it; what a version of Python does not have is passed over
TOPICS: Mapping[str, str] = {
    "code": "_ast_unparse ast code codeop compileall ctypes dis imp importlib inspect keyword modulefinder "
    "opcode pickletools pkgutil py_compile pyclbr pydoc runpy site symtable sysconfig token tokenize zipapp "
    "zipimport distutils ensurepip venv tabnanny",
    "concurrency": "_threading_local asyncio concurrent contextvars multiprocessing queue sched signal "
    "subprocess threading",
    "data types": "_collections_abc _py_abc _weakrefset abc bisect collections contextlib copy copyreg "
    "dataclasses enum functools graphlib heapq operator pickle pprint reprlib types typing uuid weakref",
    "files": "_compression _pyio bz2 chunk dbm filecmp fileinput fnmatch genericpath glob gzip io linecache "
    "lzma macpath ntpath nturl2path os pathlib posixpath shelve shutil stat tarfile tempfile wave zipfile",
    "graphics": "colorsys curses idlelib tkinter turtle turtledemo",
    "mail and markup": "_markupbase email html mailbox mailcap mimetypes quopri uu xml",
    "networking": "asynchat asyncore cgi ftplib http imaplib ipaddress netrc nntplib poplib selectors smtpd "
    "smtplib socket socketserver ssl telnetlib urllib webbrowser wsgiref xmlrpc",
    "numbers and dates": "_pydatetime _pydecimal _strptime calendar datetime fractions hashlib hmac numbers "
    "random secrets statistics zoneinfo",
    "testing and debugging": "bdb cProfile cgitb doctest faulthandler logging pdb profile pstats timeit "
    "trace traceback tracemalloc unittest warnings",
    "text": "argparse base64 cmd codecs configparser csv difflib getopt gettext json locale optparse "
    "plistlib re shlex sre_parse string stringprep textwrap tomllib",
}
NOT_READ = {"test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True)
class Topics(TextClassification):
    """Name what a docstring is about: "Accept a connection from a client." → "networking".

    Training and held-out docstrings are from different modules, so that no name of a module's own gives an
    answer away.
    """

    name = "topics"
    title = "Topic of a docstring"
    purpose = "name the topic of a docstring"
    notation = "a docstring"
    origin = "the docstrings of Python's standard library"
    grouped_by = "docstrings of one module"
    groups_name = "modules"
    tokenizer_size = 4000
    is_lowercase = True
    unknown_share = 0.3
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(PRODUCT_MODEL, steps=800, learning_rate=4e-3, evaluate_every=50),
        "document": Recipe(DOCUMENT_MODEL, steps=400, learning_rate=1e-3, evaluate_every=50),
    }
    worked_example = WorkedExample(  # of genericpath, whose docstrings are all held out
        "Return the size of a file, reported by os.stat().",
        "files",
        "No docstring of this module was learned from; other modules speak of files and stat, too.",
    )

    def read_rows(self) -> list[Row]:
        """Docstrings of this Python's standard library; one that two topics have is no topic's."""
        name = f"docstrings-{platform.python_implementation()}-{platform.python_version()}"
        rows = [Row(*row) for row in cached_rows(name, lambda: [list(row) for row in read_docstrings()])]
        return list({row.source: row for row in leave_out_contradictions(rows)}.values())


def read_docstrings() -> Iterator[Row]:
    """Every docstring of the modules in TOPICS, its topic and its module's file; nothing is imported."""
    library = Path(sysconfig.get_path("stdlib"))
    if not (library / "shutil.py").exists():
        raise ValueError(
            f"Python's standard library is not at {library}; task 'topics' reads its docstrings."
        )
    for topic, modules in TOPICS.items():
        for module in modules.split():
            for path in _files_of(library, module):
                name = path.relative_to(library).as_posix()
                for text in docstrings_of(path.read_bytes()):
                    yield Row(text, topic, name)


def _files_of(library: Path, module: str) -> list[Path]:
    """The module's file, or its package's."""
    files = [library / f"{module}.py", *sorted((library / module).rglob("*.py"))]
    return [path for path in files if path.is_file() and not NOT_READ & set(path.relative_to(library).parts)]


def docstrings_of(code: bytes) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, in one line each; none if it does not parse."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # some files of the library are broken on purpose
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = (ast.get_docstring(node, clean=False) or "").split()
            if len(words) >= FEWEST_WORDS:
                yield " ".join(words)
