"""Tables of ordinary programs, variables and files: the options, names and paths that can make one run code."""

from __future__ import annotations

import re

from tau.core.shell.options import options as _options

# Options whose value is a command. Long options may be abbreviated.
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
    "zip": _options("", "TT unzip-command"),
    "go": _options("", "exec toolexec vettool"),
    "gcc": _options("B", "wrapper specs plugin"),
    "cc": _options("B", "wrapper specs plugin"),
    "g++": _options("B", "wrapper specs plugin"),
    "clang": _options("B"),
    "apt": _options("oc", "option config-file"),
    "apt-get": _options("oc", "option config-file"),
    "rpm": _options("E", "eval pipe define"),
    "hg": _options("", "config"),
    "cargo": _options("", "config"),
    "mutt": _options("e"),
    "xterm": _options("e"),
    "vagrant": _options("c", "command"),
    "ansible": _options("am", "args"),
    "nmap": _options("", "script"),
    "git-annex": _options("c"),
    "openssl": _options("", "engine provider"),
    "dpkg": _options("", "pre-invoke post-invoke"),
}

# Programs that feed data to the command in such an option.
FEEDING = frozenset(("bat", "bsdtar", "man", "sort", "split", "tar"))

# Programs with options whose value is a setting that may contain a command.
SETTING_OPTIONS = frozenset(
    ("ansible", "apt", "apt-get", "cargo", "cc", "g++", "gcc", "hg", "nmap", "rpm", "scp", "wget")
)

# Programs that read data on stdin and do not run it, and programs that only show or look up their words.
READERS = frozenset(
    """
    base32 base64 bzip2 bunzip2 cat cksum clang-format cmp codecov col column comm cosign cut dd diff docker egrep
    expand fgrep fold fmt fzf gh gpg grep gunzip gzip head hexdump iconv jq join kubectl less lz4 md5sum mkfifo more
    nl od openssl paste patch pigz pv read rev rg sed sha1sum sha256sum sha512sum shasum shuf sort split sponge tac
    tail tar tee tr ts uniq unxz unzip wc xargs xxd xz xzcat yq zcat zstd awk mapfile readarray bat podman helm oc
    nkf xclip pbcopy wl-copy strings sum b2sum apt-key debconf-set-selections chpasswd sudo test printf xsel hexyl
    tsort cpio bsdtar cowsay csvlook dos2unix unix2dos pr look numfmt factor uuencode uudecode wrangler vercel fly
    flyctl heroku aws gcloud az gsutil vault pass age reviewdog cargo2junit gotestfmt tap-spec coveralls prettier
    lbzip2 lzip lzma lzop pbzip2 pixz plzip brotli
    black gofmt rustfmt envsubst pandoc figlet git curl nc.traditional import convert dot xmllint tput
    """.split()
)
INERT = frozenset(
    """
    : [ arch basename break cat cd chmod chown cmp comm continue cut date df diff dirname dirs du echo egrep exit
    expr false fgrep file fold getconf getopts grep groups head hostname id jq kill less local ls lsb_release md5sum
    mkdir more nl nproc od pgrep pkill popd printenv printf ps pushd pwd readlink realpath return rev rmdir seq set
    sha256sum shift sleep sort stat tac tail tee test touch tr true tty type uname uniq uptime wc whereis which who
    whoami yes ulimit umask wait xxd base64 column paste shasum sha1sum sha512sum cksum tput export declare unset
    readonly typeset
    """.split()
)
# Programs whose operands are names of packages.
PACKAGE_MANAGERS = frozenset(
    """
    apk apt apt-get aptitude brew cargo choco conda dnf emerge gem go mamba microdnf nala npm pacman pip pip3 pipx
    pnpm scoop snap winget yarn yum zypper port pkg xbps-install nix-env rustup composer bun poetry uv
    """.split()
)
INSTALLING = frozenset(
    ("add", "install", "i", "ci", "update", "upgrade", "remove", "uninstall", "-S", "-Syu", "-i", "get")
)
# Programs whose first operand is a subcommand, so it is not a program of that name; after one of GROUPS the second
# operand is one as well.
SUBCOMMANDS = frozenset(
    """
    aws az cargo docker docker-compose flyctl gcloud gh git go gsutil heroku helm hg ipfs kubectl nerdctl npm pnpm
    podman rclone svn terraform yarn bun oc crane nomad consul vault svnadmin mc s3cmd dvc pipenv poetry uv
    """.split()
)
GROUPS = frozenset(
    """
    container image volume network compose s3 remote buildx builder context secret cache
    """.split()
)

# Variables that name a program to run, or code, or where code comes from.
RUNNING_VARIABLES = re.compile(
    r"(LD_(?!LIBRARY_PATH)|DYLD_(?!LIBRARY_PATH)|BASH_(ENV|FUNC|CMDS|ALIASES)|ENV$|PROMPT_COMMAND|PS[0-4]$|SHELL$|LESS|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS"
    r"|PERL5OPT|PERL5DB|PYTHONSTARTUP|PYTHONINSPECT|PYTHONBREAKPOINT|PYTHONHOME|RUBYOPT|RUBYLIB|NODE_OPTIONS"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GCC_|COMPILER_PATH|GOFLAGS|RUSTC|RUSTDOC|CARGO_.*(RUNNER|LINKER|RUSTC)"
    r"|npm_config_|NPM_CONFIG_|TAR_OPTIONS|RSYNC_|CVS_RSH|SVN_SSH|EXINIT|VIMINIT|MYVIMRC|VIM|INPUTRC|ZDOTDIR|FCEDIT"
    r"|OPENSSL_CONF|OPENSSL_ENGINES|GCONV_PATH|AWKPATH|AWKLIBPATH|BROWSER|LUA_INIT|LUA_PATH|LUA_CPATH|PHPRC|PHP_INI"
    r"|HOME$|XDG_CONFIG|XDG_DATA|PSQLRC|PSQL_|GUILE_|ERL_|IFS_|BASHOPTS|SHELLOPTS|COMMAND_NOT_FOUND"
    r"|GIT_(?!AUTHOR_|COMMITTER_|TERMINAL_PROMPT$|LFS_SKIP|DEPTH$|TRACE|PAGER$|EDITOR$|SEQUENCE_EDITOR$|MERGE_AUTOEDIT$"
    r"|BRANCH|COMMIT|SHA|TAG|REF|REV|HASH|USER|EMAIL|TOKEN|URL|REPO|VERSION|DESCRIBE|STRATEGY|CLONE|DATE))"
)
PROGRAM_VARIABLES = re.compile(r"(.*_)?(PAGER|EDITOR|VISUAL|ASKPASS|CC|CXX|CPP|FC|LD|AR|AS|LEX|YACC)$")
# Variables whose values make puts into commands.
FLAGS = re.compile(
    r"(AR|AS|C|CO|CPP|CXX|F|G|L|LD|LINT|P|R|Y)FLAGS|LDLIBS|LOADLIBES|TARGET_(ARCH|MACH)|OUTPUT_OPTION"
    r"|(COMPILE|LEX|LINK|PREPROCESS|YACC)\..*"
)
# Programs that may be told by `config set`, `pkg set` or `alias set` what they run.
CONFIGURED = frozenset(("bun", "cargo", "composer", "gh", "git-annex", "hg", "npm", "pip", "pip3", "pnpm", "yarn"))
AWKS = ("awk", "gawk", "mawk", "nawk", "original-awk")

# Keys of git's configuration that do not name a program.
GIT_KEYS = re.compile(
    r"(user|init|push|pull|fetch|advice|color|safe|author|committer|rerere|merge|rebase|lfs|url|http|https|branch|commit"
    r"|tag|remote)\.(?!.*(cmd|command|program|helper|uploadpack|receivepack|vcs|proxy|template|driver)).*"
    r"|core\.(autocrlf|longpaths|filemode|symlinks|ignorecase|quotepath|eol|safecrlf|compression|bare|sparsecheckout"
    r"|protectntfs|preloadindex|fscache)"
    r"|(blame|log|status|format|column|help|pretty|checkout|clone)\..*|protocol\.version|gc\.(?!.*hook).*|pack\.(?!.*hook).*|index\..*|feature\..*|submodule\.(recurse|fetchjobs)|credential\.helper",
    re.IGNORECASE,
)
GIT_ORDINARY = frozenset(
    """
    add am apply blame branch cat-file check-ignore checkout cherry cherry-pick clean commit count-objects describe
    diff diff-tree for-each-ref format-patch fsck gc hash-object help init log ls-files ls-tree merge merge-base mv
    name-rev notes prune push reflog remote reset restore rev-list rev-parse revert rm shortlog show show-ref
    sparse-checkout stash status switch symbolic-ref tag update-index update-ref var verify-commit verify-tag
    version worktree write-tree fetch pull clone ls-remote archive grep rebase submodule config lfs range-diff
    """.split()
)
GIT_RUNNING = frozenset(
    """
    bisect filter-branch difftool mergetool send-email instaweb shell daemon credential fast-import fetch-pack
    send-pack p4 svn cvsserver remote-ext http-backend upload-pack interpret-trailers hook maintenance
    """.split()
)
_TRANSPORT = _options("u", "upload-pack receive-pack exec")
# Options of git subcommands that run a program.
GIT_EXECUTING = {
    "archive": _options("", "exec remote"),
    "am": _options("", "exec"),
    "clone": _options("uc", "upload-pack config template"),
    "diff": _options("", "ext-diff extcmd"),
    "fetch": _TRANSPORT._replace(short=""),
    "grep": _options("O", "open-files-in-pager"),
    "init": _options("", "template"),
    "log": _options("", "ext-diff"),
    "ls-remote": _options("", "upload-pack exec"),
    "merge": _options("", "strategy"),
    "pull": _TRANSPORT._replace(short=""),
    "push": _options("", "receive-pack exec"),
    "rebase": _options("x", "exec strategy"),
    "show": _options("", "ext-diff"),
    "submodule": _options("", "command"),
}

# Programs whose output is theirs, not text of the line, unless they read a file that the line writes: builtins,
# compilers, package managers, test runners.
ORDINARY = (
    PACKAGE_MANAGERS
    | SUBCOMMANDS
    | frozenset(
        """
    . [[ aclocal actionlint addgroup adduser alembic alias ansible-lint ansible-playbook ant apachectl
    apparmor_parser ar argocd artisan as asciidoctor asdf auditwheel autoconf autoheader automake autoreconf ava
    babel bandit bazel bazelisk bg bibtex bind biome black bmake brakeman buck buck2 build buildah builtin bundle
    bundler c++ c8 c89 c99 cabal caller cc cdk celery changeset chattr chgrp chown chsh cibuildwheel clang clang++
    clang-tidy clear cmake codecov codesign codespell command commitlint compgen complete configure corepack
    coverage cpack cppcheck createdb createuser crontab cross crystal ctest cypress cython dart declare defaults
    delocate-wheel deluser depmod dig disown django-admin dmesg dotnet doxygen dpkg dpkg-buildpackage
    dpkg-reconfigure dprint dropdb dune dvips ebuild eksctl enable esbuild eslint eval exec export f2py fastlane fc
    ffmpeg ffprobe fg flake8 flask flit flutter flux fnm free fuser g++ gcc getent getopts gfortran ghc gitleaks
    gmake gnatmake gofumpt goimports golangci-lint goreleaser gotestsum govulncheck gradle gradlew groupadd groupmod
    grunt grype gulp gunicorn hadolint hash hatch hdiutil history host hostnamectl htop hugo husky hwclock
    hypothesis identify ifconfig initctl initdb inkscape insmod install_name_tool invoke-rc.d iostat ip iptables
    isort istioctl jasmine javac jekyll jest jobs journalctl jpegoptim jupyter k3d k3s karma kind kotlinc kustomize
    latex latexmk launchctl ld ldconfig ldd lein lerna let libtool libtoolize lint-staged lipo local locale-gen
    localectl logger losetup lsblk lsmod lsof lspci lsusb lualatex magick make mapfile markdownlint maturin mdbook
    meson minikube mise mix mkdocs mke2fs mkfs mkswap mktemp mocha modprobe mongo mongod mongosh mount mountpoint
    msbuild mvn mvnw mypy mysqladmin mysqldump nasm netstat next nft ng nginx nim nimble ninja nm nodenv nose2
    nosetests nox nslookup nuxt nvcc nvidia-smi nvm nx nyc opam optipng oxlint packer pants parcel passwd pdflatex
    pdm pep8 pest pg_ctl pg_dump pg_isready pg_restore php-cs-fixer phpstan phpunit pidof ping pipenv pkg-config
    playwright pod poetry postgres pre-commit protoc psalm pulumi pycodestyle pydocstyle pyenv pylint pyright pytest
    rake ranlib rbenv read readelf readonly rebar3 redis-cli redis-server renice reset rm rmmod rollup route rspec
    rubocop ruff rush rustc rustup sam say sbt scalac scons security semantic-release semgrep serverless service set
    shellcheck shfmt shift shopt shred skaffold skopeo snyk softwareupdate source spctl sphinx-apidoc
    sphinx-autobuild sphinx-build ss ssh-add ssh-keyscan stack standard staticcheck streamlit strip stty stylelint
    supervisorctl suspend svelte-kit svgo sw_vers swapoff swapon swc swift swiftc swig syft sync sysctl systemctl
    tap time timedatectl times tofu top tox traceroute trap tree trivy trunk tsc tsup turbo twine typeset typst
    umount unalias unlink unset update-alternatives update-ca-certificates update-grub useradd userdel usermod
    uvicorn vale virtualenv vite vitest vmstat volta waf wasm-bindgen wasm-pack webpack whois xattr xcodebuild
    xelatex xo yamllint zig zola
    """.split()
    )
)
# Options whose value is a script that the program runs.
SCRIPT_OPTIONS = {
    **dict.fromkeys(AWKS, _options("fEil", "file exec include load")),
    **dict.fromkeys(("sed", "gsed"), _options("f", "file")),
}
# Programs that create or fetch archives and files: a line that runs one of them produces itself what it unpacks.
PRODUCERS = frozenset(
    """
    curl wget aria2c scp sftp rsync tar zip cpio ar 7z dd base64 base32 xxd openssl gzip bzip2 xz zstd uudecode ftp
    docker git
    """.split()
)
COPIERS = frozenset(("cp", "mv", "ln", "install", "gcp", "ginstall", "dd", "rsync", "scp", "link", "mklink"))
DOWNLOADERS = frozenset(("curl", "wget", "aria2c", "scp", "sftp", "http", "fetch", "gh"))
# Options whose value is a file that the program writes. Long options may be abbreviated.
WRITING = {
    "curl": _options("ocD", "output cookie-jar dump-header trace trace-ascii stderr etag-save hsts alt-svc libcurl"),
    "wget": _options(
        "Ooa",
        "output-document output-file append-output save-cookies warc-file hsts-file rejected-log",
    ),
    "aria2c": _options("ol", "out log save-session"),
    "http": _options("o", "output"),
    "fetch": _options("o", "output"),
    "gh": _options("O", "output"),
}
# Options whose value is a file that may name more of them.
TARGET_LISTS = {
    "curl": _options("K", "config"),
    "wget": _options("i", "input-file config"),
    "aria2c": _options("i", "input-file conf-path"),
}
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
