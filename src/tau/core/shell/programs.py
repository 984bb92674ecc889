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

    `options` take a value, `flags` do not; with another one it is not known where the command begins. None: no option
    has its value in the next word. `code`: the option whose value is a command line. `joined`: the operands are joined
    and passed to a shell.
    """

    options: Options = Options()
    flags: Options | None = Options()
    skip: int = 0
    code: str = ""
    joined: bool = False
    assigns: bool = False
    permuted: bool = False  # the option with code may follow operands


_TIMEOUT = Wrapper(_options("ks", "kill-after signal"), _options("fpv", "foreground preserve-status verbose"), 1)
WRAPPERS = {
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "caffeinate": Wrapper(_options("tw"), _options("dimsu")),
    "chroot": Wrapper(_options("", "userspec groups"), _options("", "skip-chdir"), 1),
    "command": Wrapper(flags=_options("pvV")),
    "cross-env": Wrapper(assigns=True),
    "dbus-run-session": Wrapper(_options("", "config-file dbus-daemon")),
    "doas": Wrapper(_options("uCa"), _options("nsL")),
    "env": Wrapper(
        _options("uCa", "unset chdir argv0"),
        _options("i0v", "ignore-environment null debug block-signal default-signal ignore-signal"),
        code="S",
        assigns=True,
    ),
    "exec": Wrapper(_options("a"), _options("cl")),
    "fakeroot": Wrapper(_options("lsib"), _options("uh")),
    "firejail": Wrapper(flags=None),
    "flock": Wrapper(
        _options("wE", "timeout wait conflict-exit-code"),
        _options("sxeunoFv", "shared exclusive unlock nonblock nb close no-fork verbose"),
        1,
        code="c",
        permuted=True,
    ),
    "gtimeout": _TIMEOUT,
    "ionice": Wrapper(_options("cnpPu", "class classdata pid pgid uid"), _options("t", "ignore")),
    "jobs": Wrapper(flags=_options("lnprsx")),
    "nice": Wrapper(_options("n", "adjustment"), _options("0123456789-")),
    "nocorrect": Wrapper(),
    "noglob": Wrapper(),
    "nohup": Wrapper(),
    "prlimit": Wrapper(
        _options("po", "pid output"),
        _options("cdefilmnqrstuvxy", "core cpu data fsize memlock nofile nproc rss stack verbose"),
    ),
    "runuser": Wrapper(
        _options("uGgsw", "user group supp-group shell"), _options("flmp-", "login fast"), code="c", permuted=True
    ),
    "setpriv": Wrapper(
        _options(
            "",
            "ambient-caps apparmor-profile bounding-set egid euid groups inh-caps landlock-access landlock-rule"
            " pdeathsig ptracer regid reuid rgid ruid securebits selinux-label",
        ),
        _options("", "clear-groups init-groups keep-groups nnp no-new-privs reset-env"),
    ),
    "setsid": Wrapper(flags=_options("cfw", "ctty fork wait")),
    "sg": Wrapper(flags=_options("-"), skip=1, code="c", joined=True, permuted=True),
    "ssh": Wrapper(_options("bcDEeFIiJLlmOopQRSWw"), _options("46AaCfGgKkMNnqsTtVvXxYy"), 1, joined=True),
    "stdbuf": Wrapper(_options("ioe", "input output error")),
    "strace": Wrapper(
        _options("eoOpsSuaEIPXbU", "output expr trace signal user attach env string-limit"),
        _options("cCdDfFhiknNqrtTvVwxyYzZ", "follow-forks summary-only quiet no-abbrev"),
    ),
    "su": Wrapper(_options("gGsw", "group supp-group shell"), _options("flmpP-", "login"), 1, code="c", permuted=True),
    "sudo": Wrapper(
        _options("ugphCDRTUcrt", "user group prompt host close-from chdir chroot type role timeout"),
        _options("ABbEHikKlnNPSsVv", "preserve-env set-home login non-interactive background askpass stdin shell"),
        assigns=True,
    ),
    "taskset": Wrapper(flags=_options("ac", "all-tasks cpu-list"), skip=1),
    "time": Wrapper(_options("fo", "format output"), _options("apvql", "append portability verbose quiet")),
    "timeout": _TIMEOUT,
    "unbuffer": Wrapper(flags=_options("p")),
    "uvx": Wrapper(_options("p", "from with python"), _options("qvU", "isolated quiet no-cache upgrade refresh")),
    "valgrind": Wrapper(flags=None),
    "watch": Wrapper(
        _options("nq", "interval equexit"),
        _options("bcCdegprtwx", "beep color differences errexit chgexit no-title precise exec no-wrap"),
        joined=True,
    ),
    "xvfb-run": Wrapper(
        _options("enspwf", "server-num server-args error-file auth-file xauth-protocol wait screen"),
        _options("al", "auto-servernum auto-display listen-tcp"),
    ),
    "npx": Wrapper(_options("p", "package"), _options("yqs", "yes no no-install quiet silent"), code="c"),
}
# The same for a program with one of its subcommands.
SUBWRAPPERS = {
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(),
    ("hatch", "run"): Wrapper(),
    ("rye", "run"): Wrapper(),
    ("uv", "run"): Wrapper(
        _options("p", "python with extra group package with-requirements env-file project directory"),
        _options(
            "qvU",
            "active all-extras all-groups dev exact frozen isolated locked no-cache no-default-groups no-dev no-project"
            " no-sync only-dev quiet",
        ),
    ),
    ("pixi", "run"): Wrapper(_options("e", "environment manifest-path"), _options("qv", "frozen locked")),
    ("conda", "run"): Wrapper(_options("np", "name prefix cwd"), _options("v", "no-capture-output live-stream")),
    ("bundle", "exec"): Wrapper(flags=_options("", "keep-file-descriptors")),
    ("npm", "exec"): Wrapper(_options("", "package"), _options("y", "yes no silent"), code="c"),
    ("npm", "x"): Wrapper(_options("", "package"), _options("y", "yes no silent"), code="c"),
    ("pnpm", "exec"): Wrapper(flags=_options("r", "recursive"), code="c"),
    ("pnpm", "dlx"): Wrapper(_options("", "package"), _options("", "silent")),
    ("yarn", "exec"): Wrapper(),
    ("mise", "exec"): Wrapper(),
    ("mise", "x"): Wrapper(),
    ("asdf", "exec"): Wrapper(),
    ("rbenv", "exec"): Wrapper(),
    ("pyenv", "exec"): Wrapper(),
    ("direnv", "exec"): Wrapper(skip=1),
    ("fnm", "exec"): Wrapper(_options("", "using")),
    ("nvm", "exec"): Wrapper(flags=_options("", "silent"), skip=1),
    ("volta", "run"): Wrapper(_options("", "node npm yarn pnpm")),
    ("perf", "stat"): Wrapper(_options("eoxrpt"), _options("advAB")),
    ("perf", "record"): Wrapper(_options("eoFcpt"), _options("agq")),
}
# Others that run their arguments: it is not known where the command begins.
RUNNERS = frozenset(
    """
    abduco aws-vault bear bwrap byobu cargo-watch catchsegv ccache cgexec chamber checkinstall choom chpst chronic chrt
    chruby-exec clush cpulimit cross-env-shell daemon daemonize dbus-launch distcc distrobox dockerize doppler dotenv
    dotenvx dtach dumb-init eatmydata emconfigure emmake emrun env-cmd envchain envdir envuidgid execlineb fakechroot
    faketime foreman forever gdbserver gosu gtime heaptrack honcho i386 icecc ifne infisical intercept-build kernprof
    lckdo linux32 linux64 logsave ltrace lxc-attach lxc-execute machinectl memray memusage mispipe mosh mpiexec mpirun
    msr multitime nsenter numactl op overmind parallel-ssh pdsh pee pgrphack pkexec pm2 ppc64 proot proxychains
    proxychains4 pssh py-spy pyinstrument qsub reptyr rlwrap rr runcon runit runsv runsvdir rvm s6-envdir
    s6-setuidgid sandbox-exec scalene scan-build schedtool scriptlive setarch setlock setuidgid setuser
    softlimit sops sparc32 sparc64 srun ssh-agent sshpass su-exec supervise supervisor systemd-inhibit systemd-nspawn
    systemd-run tini torify torsocks toolbox toybox trace-cmd trickle tsocks uclampset uftrace uname26 unshare vglrun
    viztracer wait-for wait-for-it wait-for-it.sh with-contenv x86_64 xcrun xinit zrun
    """.split()
)

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
