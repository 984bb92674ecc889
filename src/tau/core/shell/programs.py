"""Tables of programs that run other programs or code: wrappers, shells, interpreters.

A program that is in no table counts as an ordinary one: it may run with any arguments, but not with input that the
line itself feeds to it.
"""

from __future__ import annotations

from typing import NamedTuple

from tau.core.shell.options import Options
from tau.core.shell.options import options as _options


class Wrapper(NamedTuple):
    """A program that runs the command after its options and `skip` operands.

    `code`: the option whose value is a command line. `joined`: the operands are joined and passed to a shell.
    """

    options: Options = Options()
    skip: int = 0
    code: str = ""
    joined: bool = False
    assigns: bool = False
    permuted: bool = False  # the option with code may follow operands


WRAPPERS = {
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "caffeinate": Wrapper(_options("tw")),
    "catchsegv": Wrapper(),
    "cgexec": Wrapper(_options("g")),
    "chroot": Wrapper(_options("", "userspec groups"), 1),
    "chrt": Wrapper(_options("TPD"), 1),
    "command": Wrapper(),
    "coproc": Wrapper(),
    "cross-env": Wrapper(assigns=True),
    "dbus-run-session": Wrapper(_options("", "config-file dbus-daemon")),
    "doas": Wrapper(_options("uCa")),
    "dotenv": Wrapper(_options("efv")),
    "env": Wrapper(_options("uC", "unset chdir argv0"), code="S", assigns=True),
    "exec": Wrapper(_options("a")),
    "fakeroot": Wrapper(_options("lsib")),
    "faketime": Wrapper(_options("f"), 1),
    "firejail": Wrapper(),
    "flock": Wrapper(_options("wE", "timeout wait conflict-exit-code"), 1, code="c", permuted=True),
    "gtimeout": Wrapper(_options("ks", "kill-after signal"), 1),
    "ionice": Wrapper(_options("cnpPu", "class classdata pid pgid uid")),
    "linux32": Wrapper(),
    "linux64": Wrapper(),
    "logsave": Wrapper(skip=1),
    "ltrace": Wrapper(_options("aeFlnopsuwx")),
    "nice": Wrapper(_options("n", "adjustment")),
    "nocorrect": Wrapper(),
    "noglob": Wrapper(),
    "nohup": Wrapper(),
    "nsenter": Wrapper(_options("tSGW", "target setuid setgid")),
    "numactl": Wrapper(_options("ipNCm", "interleave preferred cpunodebind physcpubind membind")),
    "pkexec": Wrapper(_options("", "user")),
    "prlimit": Wrapper(_options("po", "pid output")),
    "proot": Wrapper(_options("rbwqkv")),
    "runcon": Wrapper(_options("utrl"), 1),
    "runuser": Wrapper(_options("uGgsw", "user group supp-group shell"), code="c", permuted=True),
    "setarch": Wrapper(skip=1),
    "setpriv": Wrapper(_options("", "ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups")),
    "setsid": Wrapper(),
    "sg": Wrapper(skip=1, code="c", joined=True, permuted=True),
    "ssh": Wrapper(_options("bcDEeFIiJLlmOopQRSWw"), 1, joined=True),
    "stdbuf": Wrapper(_options("ioe", "input output error")),
    "strace": Wrapper(_options("eoOpsSuaEIPXbU")),
    "su": Wrapper(_options("gGsw", "group supp-group shell"), 1, code="c", permuted=True),
    "sudo": Wrapper(
        _options("ugphCDRTUcrt", "user group prompt host close-from chdir chroot type role timeout"), assigns=True
    ),
    "systemd-run": Wrapper(_options("pHMuGED", "property unit description slice uid gid nice setenv host machine")),
    "taskset": Wrapper(skip=1),
    "time": Wrapper(_options("fo", "format output")),
    "timeout": Wrapper(_options("ks", "kill-after signal"), 1),
    "torsocks": Wrapper(),
    "toybox": Wrapper(),
    "unbuffer": Wrapper(),
    "unshare": Wrapper(_options("SGRw", "setuid setgid root wd map-user map-group propagation setgroups")),
    "uvx": Wrapper(_options("p", "from with python")),
    "valgrind": Wrapper(),
    "watch": Wrapper(_options("nq", "interval equexit"), joined=True),
    "xvfb-run": Wrapper(_options("enspwf", "server-num server-args error-file auth-file xauth-protocol wait screen")),
    "npx": Wrapper(_options("p", "package"), code="c"),
}
# The same for a program with one of its subcommands.
SUBWRAPPERS = {
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(),
    ("hatch", "run"): Wrapper(),
    ("rye", "run"): Wrapper(),
    ("uv", "run"): Wrapper(_options("p", "python with extra group package with-requirements env-file project")),
    ("pixi", "run"): Wrapper(_options("e", "environment")),
    ("conda", "run"): Wrapper(_options("np", "name prefix cwd")),
    ("bundle", "exec"): Wrapper(),
    ("npm", "exec"): Wrapper(_options("", "package"), code="c"),
    ("npm", "x"): Wrapper(_options("", "package"), code="c"),
    ("pnpm", "exec"): Wrapper(code="c"),
    ("pnpm", "dlx"): Wrapper(),
    ("yarn", "exec"): Wrapper(),
    ("mise", "exec"): Wrapper(),
    ("mise", "x"): Wrapper(),
    ("asdf", "exec"): Wrapper(),
    ("rbenv", "exec"): Wrapper(),
    ("pyenv", "exec"): Wrapper(),
    ("direnv", "exec"): Wrapper(skip=1),
    ("perf", "stat"): Wrapper(_options("eoxrpt")),
    ("perf", "record"): Wrapper(_options("eoFcpt")),
}

SHELLS = frozenset(
    """
    ash bash csh dash fish ksh mksh nu oksh pwsh rbash rksh sh tcsh yash zsh
    """.split()
)

OTHER_SHELLS = frozenset(("csh", "fish", "nu", "pwsh", "tcsh"))  # their language is not that of sh


class Interpreter(NamedTuple):
    """A program that runs code: `code` are options with code as their value, `options` others with a value.

    `files`: the first operand is a script; without one it reads stdin.
    """

    code: Options
    options: Options = Options()
    files: bool = True


INTERPRETERS = {
    "python": Interpreter(_options("c"), _options("WXQ", "check-hash-based-pycs")),
    "pypy": Interpreter(_options("c"), _options("WX")),
    "ipython": Interpreter(_options("c")),
    "perl": Interpreter(_options("eE"), _options("", "")),
    "ruby": Interpreter(_options("e"), _options("rICEF")),
    "node": Interpreter(_options("ep", "eval print"), _options("rC", "require import loader conditions")),
    "nodejs": Interpreter(_options("ep", "eval print"), _options("rC", "require import loader conditions")),
    "bun": Interpreter(_options("ep", "eval print"), _options("r"), files=False),
    "deno": Interpreter(_options("", "eval"), files=False),
    "php": Interpreter(_options("rBRE"), _options("cdfztS")),
    "lua": Interpreter(_options("e"), _options("l")),
    "luajit": Interpreter(_options("e"), _options("lj")),
    "tclsh": Interpreter(_options()),
    "wish": Interpreter(_options()),
    "expect": Interpreter(_options("c"), _options("f")),
    "julia": Interpreter(_options("eE", "eval print"), _options("LpCtJ")),
    "rscript": Interpreter(_options("e")),
    "r": Interpreter(_options("ef"), _options("", "file")),
    "osascript": Interpreter(_options("e"), _options("l")),
    "groovy": Interpreter(_options("e")),
    "elixir": Interpreter(_options("e", "eval")),
    "erl": Interpreter(_options("", "eval")),
    "escript": Interpreter(_options()),
    "clojure": Interpreter(_options("e", "eval")),
    "scala": Interpreter(_options("e")),
    "ghci": Interpreter(_options("e")),
    "runghc": Interpreter(_options()),
    "ocaml": Interpreter(_options("e")),
    "sbcl": Interpreter(_options("", "eval load")),
    "guile": Interpreter(_options("c")),
    "racket": Interpreter(_options("e")),
    "emacs": Interpreter(_options("fl", "eval execute funcall load script"), files=False),
    "vim": Interpreter(_options("cSs", "cmd"), files=False),
    "vi": Interpreter(_options("cSs", "cmd"), files=False),
    "nvim": Interpreter(_options("cSs", "cmd"), files=False),
    "ex": Interpreter(_options("cSs", "cmd"), files=False),
    "ed": Interpreter(_options(), files=False),
    "red": Interpreter(_options(), files=False),
    "gdb": Interpreter(_options("x", "ex eval-command command init-command init-eval-command"), files=False),
    "lldb": Interpreter(_options("osSOQkK", "one-line source"), files=False),
    "sqlite3": Interpreter(_options("", "cmd init"), files=False),
    "sqlite": Interpreter(_options("", "cmd init"), files=False),
    "psql": Interpreter(_options("cf", "command file"), files=False),
    "mysql": Interpreter(_options("e", "execute"), files=False),
    "mariadb": Interpreter(_options("e", "execute"), files=False),
    "dc": Interpreter(_options("ef", "expression file"), files=False),
    "bc": Interpreter(_options(), files=False),
    "m4": Interpreter(_options()),
    "gnuplot": Interpreter(_options("e")),
    "octave": Interpreter(_options("", "eval")),
    "jshell": Interpreter(_options(), files=False),
    "jjs": Interpreter(_options()),
    "ftp": Interpreter(_options(), files=False),
    "sftp": Interpreter(_options("b"), _options("oFSPcDilR"), files=False),
    "at": Interpreter(_options("f"), files=False),
    "batch": Interpreter(_options("f"), files=False),
    "crontab": Interpreter(_options(), files=False),
    "parallel": Interpreter(_options(), files=False),
    "sem": Interpreter(_options(), files=False),
    "rename": Interpreter(_options("eE"), files=False),
    "tmux": Interpreter(_options(), files=False),
    "screen": Interpreter(_options("X"), files=False),
    "hyperfine": Interpreter(_options("ps", "prepare setup cleanup"), files=False),
    "concurrently": Interpreter(_options(), files=False),
    "entr": Interpreter(_options(), files=False),
    "watchexec": Interpreter(_options(), files=False),
    "nodemon": Interpreter(_options("x", "exec")),
    "socat": Interpreter(_options(), files=False),
    "nc": Interpreter(_options("ec"), files=False),
    "ncat": Interpreter(_options("ec", "exec sh-exec lua-exec"), files=False),
    "start-stop-daemon": Interpreter(_options(), files=False),
    "run-parts": Interpreter(_options(), files=False),
    "capsh": Interpreter(_options(), files=False),
    "nix-shell": Interpreter(_options("", "run command"), files=False),
    "ts-node": Interpreter(_options("ep", "eval print")),
    "tsx": Interpreter(_options("ep", "eval print")),
}
# Without code in their arguments or on stdin these run nothing; with it, what they run is not determined.
OPAQUE = frozenset(
    """
    parallel sem concurrently entr watchexec socat start-stop-daemon run-parts capsh hyperfine tmux screen rename
    """.split()
)
# Operands of these are code as well: `sqlite3 db '.shell x'`, `vim +'!x'`, `expect`, `ed -`.
CODE_OPERANDS = frozenset(("sqlite3", "sqlite", "vim", "vi", "nvim", "ex", "dc", "erl"))
MODULES_THAT_RUN_CODE = frozenset(
    ("asyncio", "code", "codeop", "idlelib", "pdb", "profile", "cprofile", "pty", "runpy", "timeit", "trace", "doctest")
)
