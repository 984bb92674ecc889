"""Tables of programs: which run others, which read code, and which only read data.

A program that is in none of the tables counts as an ordinary one: it may run with
any arguments, but not with what the line itself feeds to it.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Options(NamedTuple):
    """Which options of a program take a value: `short` has their letters, `long` their names."""

    short: str = ""
    long: frozenset[str] = frozenset()


def _options(short: str = "", long: str = "") -> Options:
    return Options(short, frozenset(long.split()))


class Wrapper(NamedTuple):
    """A program that runs the command behind its options and `skip` operands.

    `code`: the option whose value is a command line. `joined`: the operands are joined and given to a shell.
    """

    options: Options = Options()
    skip: int = 0
    code: str = ""
    joined: bool = False
    assigns: bool = False


WRAPPERS = {
    "ash": Wrapper(),
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
    "env": Wrapper(_options("uC", "unset chdir block-signal default-signal ignore-signal"), code="S", assigns=True),
    "exec": Wrapper(_options("a")),
    "fakeroot": Wrapper(_options("lsib")),
    "faketime": Wrapper(_options("f"), 1),
    "firejail": Wrapper(),
    "flock": Wrapper(_options("wE", "timeout wait conflict-exit-code"), 1, code="c"),
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
    "runuser": Wrapper(_options("uGgsw", "user group supp-group shell"), code="c"),
    "setarch": Wrapper(skip=1),
    "setpriv": Wrapper(_options("", "ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups")),
    "setsid": Wrapper(),
    "sg": Wrapper(skip=1, code="c", joined=True),
    "ssh": Wrapper(_options("bcDEeFIiJLlmOopQRSWw"), 1, joined=True),
    "stdbuf": Wrapper(_options("ioe", "input output error")),
    "strace": Wrapper(_options("eoOpsSuaEIPXbU")),
    "su": Wrapper(_options("gGsw", "group supp-group shell"), 1, code="c"),
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
    ("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "nu", "oksh", "pwsh", "rbash", "rksh", "sh", "tcsh", "yash", "zsh")
)


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
    "sftp": Interpreter(_options("b"), files=False),
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
# Without code in their arguments or on stdin these run nothing; with it, what they run is not looked for.
OPAQUE = frozenset(
    (
        *("parallel", "sem", "concurrently", "entr", "watchexec", "socat", "start-stop-daemon", "run-parts", "capsh"),
        *("hyperfine", "tmux", "screen", "rename"),
    )
)
# Operands of these are code as well: `sqlite3 db '.shell x'`, `vim +'!x'`, `expect`, `ed -`.
CODE_OPERANDS = frozenset(("sqlite3", "sqlite", "vim", "vi", "nvim", "ex", "dc", "erl"))
MODULES_THAT_RUN_CODE = frozenset(
    ("asyncio", "code", "codeop", "idlelib", "pdb", "profile", "cprofile", "pty", "runpy", "timeit", "trace", "doctest")
)

# Options whose value is a command. Long options may be shortened.
EXECUTING = {
    "tar": _options(
        "IF", "use-compress-program to-command checkpoint-action rsh-command info-script new-volume-script rmt-command"
    ),
    "bsdtar": _options("", "use-compress-program"),
    "cpio": _options("", "rsh-command"),
    "rsync": _options("e", "rsh rsync-path"),
    "scp": _options("SoF"),
    "sort": _options("", "compress-program"),
    "split": _options("", "filter"),
    "rg": _options("", "pre hostname-bin"),
    "fd": _options("xX", "exec exec-batch"),
    "fdfind": _options("xX", "exec exec-batch"),
    "man": _options("PH", "pager html"),
    "bat": _options("", "pager"),
    "install": _options("", "strip-program"),
    "wget": _options("e", "use-askpass execute"),
    "zip": _options("T", "unzip-command"),
    "go": _options("", "exec toolexec vettool"),
    "gcc": _options("B", "wrapper specs plugin"),
    "cc": _options("B", "wrapper specs plugin"),
    "g++": _options("B", "wrapper specs plugin"),
    "clang": _options("B", ""),
    "apt": _options("oc", "option config-file"),
    "apt-get": _options("oc", "option config-file"),
    "rpm": _options("E", "eval pipe define"),
    "less": _options("", ""),
    "hg": _options("", "config"),
    "cargo": _options("", "config"),
    "mutt": _options("e"),
    "xterm": _options("e"),
    "vagrant": _options("c", "command"),
    "ansible": _options("am", "args"),
    "kubectl": _options("", ""),
    "nmap": _options("", "script"),
    "pg_dump": _options(),
    "git-annex": _options("c"),
    "openssl": _options("", "engine provider"),
    "dpkg": _options("", "pre-invoke post-invoke"),
    "xmlto": _options(),
    "ldd": _options(),
    "java": _options(),
    "csplit": _options(),
    "column": _options(),
    "crash": _options(),
}

# Programs that read data on stdin, and do not run it. Also those whose words are only shown or looked up.
READERS = frozenset(
    (
        *("base32", "base64", "bzip2", "bunzip2", "cat", "cksum", "clang-format", "cmp", "codecov", "col", "column"),
        *("comm", "cosign", "cut", "dd", "diff", "docker", "egrep", "expand", "fgrep", "fold", "fmt", "fzf", "gh"),
        *("gpg", "grep", "gunzip", "gzip", "head", "hexdump", "iconv", "jq", "join", "kubectl", "less", "lz4", "md5sum"),
        *("mkfifo", "more", "nl", "od", "openssl", "paste", "patch", "pigz", "pv", "read", "rev", "rg", "sed", "sha1sum"),
        *("sha256sum", "sha512sum", "shasum", "shuf", "sort", "split", "sponge", "tac", "tail", "tar", "tee", "tr", "ts"),
        *("uniq", "unxz", "unzip", "wc", "xargs", "xxd", "xz", "xzcat", "yq", "zcat", "zstd", "awk", "mapfile"),
        *("readarray", "bat", "podman", "helm", "oc", "nkf", "xclip", "pbcopy", "wl-copy", "strings", "sum", "b2sum"),
        *("apt-key", "debconf-set-selections", "chpasswd", "sudo", "test", "printf", "xsel", "hexyl", "tsort", "cpio"),
        *("bsdtar", "cowsay", "csvlook", "dos2unix", "unix2dos", "pr", "look", "numfmt", "factor", "uuencode", "uudecode"),
        *("wrangler", "vercel", "fly", "flyctl", "heroku", "aws", "gcloud", "az", "gsutil", "vault", "pass", "age"),
        *("reviewdog", "cargo2junit", "gotestfmt", "tap-spec", "coveralls", "prettier", "black", "gofmt", "rustfmt"),
        *("envsubst", "pandoc", "figlet", "git", "curl", "nc.traditional", "import", "convert", "dot", "xmllint", "tput"),
    )
)
INERT = frozenset(
    (
        *(":", "[", "arch", "basename", "break", "cat", "cd", "chmod", "chown", "cmp", "comm", "continue", "cut", "date"),
        *("df", "diff", "dirname", "dirs", "du", "echo", "egrep", "exit", "expr", "false", "fgrep", "file", "fold"),
        *("getconf", "getopts", "grep", "groups", "head", "hostname", "id", "jq", "kill", "less", "local", "ls", "lsb_release"),
        *("md5sum", "mkdir", "more", "nl", "nproc", "od", "pgrep", "pkill", "popd", "printenv", "printf", "ps", "pushd"),
        *("pwd", "readlink", "realpath", "return", "rev", "rmdir", "seq", "set", "sha256sum", "shift", "sleep", "sort"),
        *("stat", "tac", "tail", "tee", "test", "touch", "tr", "true", "tty", "type", "uname", "uniq", "uptime", "wc"),
        *("whereis", "which", "who", "whoami", "yes", "ulimit", "umask", "wait", "xxd", "base64", "column", "paste"),
        *("shasum", "sha1sum", "sha512sum", "cksum", "tput", "export", "declare", "unset", "readonly", "typeset"),
    )
)
# Their operands are names of packages.
PACKAGE_MANAGERS = frozenset(
    (
        *("apk", "apt", "apt-get", "aptitude", "brew", "cargo", "choco", "conda", "dnf", "emerge", "gem", "go", "mamba"),
        *("microdnf", "nala", "npm", "pacman", "pip", "pip3", "pipx", "pnpm", "scoop", "snap", "winget", "yarn", "yum"),
        *("zypper", "port", "pkg", "xbps-install", "nix-env", "rustup", "composer", "bun", "poetry", "uv"),
    )
)
INSTALLING = frozenset(("add", "install", "i", "ci", "update", "upgrade", "remove", "uninstall", "-S", "-Syu", "-i", "get"))
# The first operand is a subcommand, so it is no program of that name; behind one of GROUPS the second one as well.
SUBCOMMANDS = frozenset(
    (
        *("aws", "az", "cargo", "docker", "docker-compose", "flyctl", "gcloud", "gh", "git", "go", "gsutil", "heroku"),
        *("helm", "hg", "ipfs", "kubectl", "nerdctl", "npm", "pnpm", "podman", "rclone", "svn", "terraform", "yarn"),
        *("bun", "oc", "crane", "nomad", "consul", "vault", "svnadmin", "mc", "s3cmd", "dvc", "pipenv", "poetry", "uv"),
    )
)
GROUPS = frozenset(
    ("container", "image", "volume", "network", "compose", "s3", "remote", "buildx", "builder", "context", "secret", "cache")
)

# Variables that name a program to run, or code, or where code comes from.
RUNNING_VARIABLES = re.compile(
    r"(LD_(?!LIBRARY_PATH)|DYLD_(?!LIBRARY_PATH)|BASH_ENV|BASH_FUNC|ENV$|PROMPT_COMMAND|PS[0-4]$|SHELL$|LESS|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS"
    r"|PERL5OPT|PERL5DB|PYTHONSTARTUP|PYTHONINSPECT|PYTHONBREAKPOINT|PYTHONHOME|RUBYOPT|RUBYLIB|NODE_OPTIONS"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GCC_|COMPILER_PATH|GOFLAGS|RUSTC|RUSTDOC|CARGO_.*(RUNNER|LINKER|RUSTC)"
    r"|npm_config_|NPM_CONFIG_|TAR_OPTIONS|RSYNC_|CVS_RSH|SVN_SSH|EXINIT|VIMINIT|MYVIMRC|VIM|INPUTRC|ZDOTDIR|FCEDIT"
    r"|OPENSSL_CONF|OPENSSL_ENGINES|GCONV_PATH|AWKPATH|AWKLIBPATH|BROWSER|LUA_INIT|LUA_PATH|LUA_CPATH|PHPRC|PHP_INI"
    r"|HOME$|XDG_CONFIG|XDG_DATA|PSQLRC|PSQL_|GUILE_|ERL_|IFS_|BASHOPTS|SHELLOPTS|COMMAND_NOT_FOUND"
    r"|GIT_(?!AUTHOR_|COMMITTER_|TERMINAL_PROMPT$|LFS_SKIP|DEPTH$|TRACE|PAGER$|EDITOR$|SEQUENCE_EDITOR$|MERGE_AUTOEDIT$"
    r"|BRANCH|COMMIT|SHA|TAG|REF|REV|HASH|USER|EMAIL|TOKEN|URL|REPO|VERSION|DESCRIBE|STRATEGY|CLONE|DATE))"
)
PROGRAM_VARIABLES = re.compile(r"(.*_)?(PAGER|EDITOR|VISUAL|ASKPASS|CC|CXX|LD|AR)$")

# Options of git with code, and keys of its configuration that can hold none.
GIT_KEYS = re.compile(
    r"(user|init|push|pull|fetch|advice|color|safe|author|committer|rerere|merge|rebase|lfs|url|http|https|branch|commit"
    r"|tag|remote)\.(?!.*(cmd|command|program|helper|uploadpack|receivepack|vcs|proxy|template|driver)).*"
    r"|core\.(autocrlf|longpaths|filemode|symlinks|ignorecase|quotepath|eol|safecrlf|compression|bare|sparsecheckout"
    r"|protectntfs|preloadindex|fscache)"
    r"|(blame|log|status|format|column|help|pretty|checkout|clone)\..*|protocol\.version|gc\..*|pack\.(?!.*hook).*|index\..*|feature\..*|submodule\.(recurse|fetchjobs)|credential\.helper",
    re.IGNORECASE,
)
GIT_ORDINARY = frozenset(
    (
        *("add", "am", "apply", "blame", "branch", "cat-file", "check-ignore", "checkout", "cherry", "cherry-pick"),
        *("clean", "commit", "count-objects", "describe", "diff", "diff-tree", "for-each-ref", "format-patch", "fsck"),
        *("gc", "hash-object", "help", "init", "log", "ls-files", "ls-tree", "merge", "merge-base", "mv", "name-rev"),
        *("notes", "prune", "push", "reflog", "remote", "reset", "restore", "rev-list", "rev-parse", "revert", "rm"),
        *("shortlog", "show", "show-ref", "sparse-checkout", "stash", "status", "switch", "symbolic-ref", "tag"),
        *("update-index", "update-ref", "var", "verify-commit", "verify-tag", "version", "worktree", "write-tree"),
        *("fetch", "pull", "clone", "ls-remote", "archive", "grep", "rebase", "submodule", "config", "lfs", "range-diff"),
    )
)
GIT_EXECUTING = _options("xuO", "exec upload-pack receive-pack open-files-in-pager ext-diff extcmd template config strategy")

# What the line must have written itself for a download or an archive to be its own work.
PRODUCERS = frozenset(
    (
        *("curl", "wget", "aria2c", "scp", "sftp", "rsync", "tar", "zip", "cpio", "ar", "7z", "dd", "base64", "base32"),
        *("xxd", "openssl", "gzip", "bzip2", "xz", "zstd", "uudecode", "ftp", "docker", "git"),
    )
)
COPIERS = frozenset(("cp", "mv", "ln", "install", "gcp", "ginstall", "dd", "rsync", "scp", "link", "mklink"))
DOWNLOADERS = frozenset(("curl", "wget", "aria2c", "scp", "sftp", "http", "fetch", "gh"))
UNPACKERS = frozenset(("tar", "unzip", "cpio", "7z", "ar", "bsdtar", "gunzip", "unxz", "patch", "git", "xxd", "base64"))
DATA_FILE = re.compile(
    r".*\.(log|txt|out|err|md|rst|csv|tsv|xml|html?|lcov|info|sarif|png|jpe?g|svg|pdf|tar|t?gz|xz|bz2|zip|zst|deb|rpm|whl|lock"
    r"|sum|sha256|sha512|asc|sig|gpg|key|pem|crt|diff|patch|yaml|yml|json|jsonl|env|ini|conf|list|cov|xunit|trx|sql|db|bak|pid"
    r"|properties|example|local|stamp|version|gitignore|dot|dockerignore)|.*(log|output|report|version|changelog|readme|license)"
    r"|\.env(\..*)?|/?dev/(null|stdout|stderr|tty)|(?-i:[A-Z_]+)",
    re.IGNORECASE,
)
CODE_FILE = re.compile(
    r"(package|composer|deno|nx|project|turbo|lerna|.*rc|karma|babel|jest)\.json|.*rc|(gnu)?makefile|.*\.mk|\.(git|npm|yarn).*"
    r"|(docker|jenkins|rake|gem|vagrant|proc|just|task)file|(task|docker-compose|compose|action|.*playbook.*)\.ya?ml|pip\.conf"
    r"|(setup|tox|pytest)\.(cfg|ini)|env|bash.*|profile",
    re.IGNORECASE,
)
