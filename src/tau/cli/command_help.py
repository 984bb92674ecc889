"""`tau COMMAND --help`: the help of each command."""

from __future__ import annotations

COMMAND_HELP = {
    "acp": """\
usage: tau acp [options]
       tau acp --setup

Serve an editor (Zed, JetBrains, Neovim, Emacs, ...) over the Agent Client Protocol: JSON-RPC on stdin and stdout, many
sessions in one process. All options of RPC mode count, but those that choose a session: the client does that.

--setup asks for a provider and an API key, as `tau login` does.

  Zed              "agent_servers": {"tau": {"command": "tau", "args": ["acp"]}}
  try it           npx acpx --agent "tau acp --model demo" exec "list the files here" """.rstrip(),
    "attach": """\
usage: tau attach [ID] [--connect URL] [--token-file FILE] [--plain]
       tau attach --open [--model PATTERN] [--name NAME] ...

Open the interface on a session of a host (tau serve). The session goes on when you leave. Without an id, choose one
from a list; --open opens a new session in this folder. ID: the beginning of the id is enough (8 characters).

  --connect URL       the host: unix: (yours, the default), unix:/path/to/socket, http://HOST:PORT, https://...
  --token-file FILE   the token for a host elsewhere; that of your own host is found by itself
  --plain             lines only: for screen readers and simple terminals

Programs use: pi --mode rpc --connect URL [--session ID | --open]""",
    "completion": """\
usage: tau completion bash|zsh|fish

Print a completion script for pi and tau. To use it, add to the start-up file of your shell:

  bash    eval "$(tau completion bash)"
  zsh     eval "$(tau completion zsh)"        (after compinit)
  fish    tau completion fish | source

tau completion models|providers|tools|sessions prints the names that the scripts offer.""",
    "config": """\
usage: tau config [-l] [--json]
       tau config [-l] on|off|reset RESOURCE ...

List the extensions, skills, prompt templates and themes of packages and of the usual folders, with [x] for those that
are used. At a terminal, type the number of one to turn it on or off. RESOURCE is a number or a name of the list.

  -l, --local     change the settings of this project: also for packages of the user, in this project only
  --json          print JSON

tau config reset RESOURCE removes what on or off wrote.""",
    "doctor": """\
usage: tau doctor

Report what is configured: files, keys (only where they come from), model servers on this machine, the model that a
session starts with, and mistakes in settings.json, models.json and auth.json with their lines. It changes nothing,
contacts no provider and runs no command.

  ok  works        --  a note, nothing to do        !!  needs to be fixed

Exit code 1 if something needs to be fixed. A missing API key is not an error.""",
    "extension": """\
usage: tau extension new NAME

Write NAME.py to the current folder: an extension with a hook, a tool and a command to start from.

  try it           tau -e NAME.py
  use it always    move it to ~/.pi/agent/extensions""",
    "fleet": """\
usage: tau fleet run TASKS --out DIR [--concurrency N] [--model PATTERN] [--max-cost DOLLARS] [--sandbox LEVEL]
                     [--workers N | --worker COMMAND ... | --engine local|dask:ADDRESS]
                     [--keep never|failed|always] [--changed refuse|redo|keep]
                     [--after-loss restart|continue] [--orphans stop|keep] [--serve]
                     [--only GLOB] [--shuffle] [--seed N] [--first N] [--dry-run] [--watch]
       tau fleet status DIR [--watch] [--json]
       tau fleet show DIR TASK [--json]
       tau fleet retry DIR [--outcome OUTCOME] [--only GLOB]
       tau fleet stop DIR [TASK]
       tau fleet repair DIR
       tau fleet credentials DIR
       tau fleet export DIR [--format jsonl|csv|swebench|sqlite] [-o FILE]
       tau fleet report DIR [-o FILE]

Run a file of tasks (JSON lines), each by an agent of its own. The same command again goes on where it was: each task
ends with one result. --worker names a command that starts `tau fleet worker` elsewhere, such as ssh. Each of these
commands has --help.

Exit codes: 0 all done or solved, 1 some are not, 2 a mistake, 3 stopped by --max-cost, 130 after Ctrl+C.""",
    "install": """\
usage: tau install SOURCE [-l] [--allow-scripts NAME ...] [--dry-run] [--force] [--approve]

Install a package with extensions, skills, prompt templates or themes, and add it to settings.json. pi has the same
folders and settings, so both programs share what is installed.

  npm:NAME, npm:NAME@VERSION         a package of npm; with an exact version it is pinned
  git:HOST/PATH, git:HOST/PATH@REF   a repository; https://... and ssh://... too; with a ref it is pinned
  ./folder, /path/to/file.ts         used where it is

  -l, --local           for this project: in .pi/settings.json, .pi/npm and .pi/git. The project must be trusted
  --allow-scripts NAME  run the install scripts of this package; otherwise none is run. May be repeated
  --dry-run             tell what would be installed
  --force               discard changes in the folder of a repository
  --offline             fetch nothing (PI_OFFLINE=1 does the same)

Extensions run with your rights. A package without a SHA-512, or that does not come over https, is refused.""",
    "list": """\
usage: tau list [--json]

List the packages of settings.json, of the user and of the project: source, version or commit, folder, and whether
one is missing or was changed since tau installed it.""",
    "login": """\
usage: tau login [PROVIDER]

Store an API key in auth.json (asked for without echo, and checked with one request where the provider has a cheap
one), or log in with OAuth to a provider that models.json configures for it.""",
    "logout": """\
usage: tau logout [PROVIDER]

Remove the API key or the OAuth login of a provider from auth.json. Other entries stay.""",
    "mcp": """\
usage: tau mcp list [--json]
       tau mcp add NAME [-l] [--env K=V ...] [--cwd DIR] [--exposure E] [--description TEXT] -- COMMAND ARGS...
       tau mcp add NAME [-l] --url URL [--header K=V ...] [--bearer-token-env-var NAME] [--oauth-client-id ID]
       tau mcp add [-l] --from FILE [NAME ...]
       tau mcp remove NAME [-l]
       tau mcp doctor [NAME ...] [--refresh] [--json]
       tau mcp login NAME
       tau mcp logout NAME
       tau mcp call SERVER TOOL [JSON]
       tau mcp serve [--tools A,B] [--cwd DIR] [--root DIR ...] [options]

Manage MCP servers. list starts nothing. add writes to mcp.json in the agent folder, with -l to .pi/mcp.json of this
project; --from copies servers from a file of Claude, Cursor, VS Code, Codex or opencode. doctor starts each server
and tells what it offers, what changed, and why one fails. login signs in with OAuth. call prints the result of one
tool call as JSON.

serve makes tau an MCP server on stdin and stdout. Its tools are tau, which lets the agent work on a prompt, and
tau_reply, which continues; --tools names what is offered instead, also built-in tools (tau,tau_reply,read,grep).
The agent works below the folder of the server and each --root. Sessions of the folder are resources. The options for
models, permissions, sandbox and limits apply to every session.

Exit code 1 if an entry is invalid (list), a server is not ready (doctor) or a call fails (call).""",
    "remove": """\
usage: tau remove SOURCE [-l]

Remove a package from settings.json, and its folder; a local package stays where it is. The version in SOURCE does not
matter. With -l, from the settings of this project. tau uninstall is the same.""",
    "serve": """\
usage: tau serve [--listen ADDRESS:PORT | --no-tcp] [--root DIR ...] [--idle TIME] [--max-live N]
                 [--answer-timeout SECONDS] [--drain SECONDS] [options of sessions]
       tau serve status
       tau serve url [--scope watch|drive|admin]
       tau serve token new --name NAME [--scope watch|drive|admin] | list | revoke NAME

Keep sessions open for clients that come and go: lines on a Unix socket below the agent folder, and HTTP and WebSocket
with the extra (pip install '.[serve]' in a clone). Sessions work in the current folder and below each --root. Options
such as --model, --tools, --permissions and --sandbox set what clients get; clients can narrow them, never widen them.

SIGTERM and Ctrl+C: runs may settle for --drain seconds, then they are aborted and everything is saved.
tau serve url prints an address that logs a browser in, once and within five minutes. tau serve token manages tokens for
other programs and machines: watch may read, drive may do everything in sessions, admin may also open and close them.
tau serve status tells whether a host is running, since when, and which sessions are open.""",
    "sessions": """\
usage: tau sessions [--all] [--session-dir DIR] [WORD ...]

List the sessions of this project, newest first: id, time of the last change, number of messages, title and file.
Words filter by id and title. --all lists the sessions of every project.

  continue one    tau --session ID        (the beginning of the id is enough)
  export one      tau --export ID""",
    "trust": """\
usage: tau trust [DIR]
       tau trust --remove [DIR]

Trust a project (default: the current folder) in its current state: its settings, extensions and system prompt take
effect until one of these files changes. --remove revokes the trust.

To trust a project for one run: tau --approve""",
    "uninstall": """\
usage: tau uninstall SOURCE [-l]

The same as tau remove.""",
    "update": """\
usage: tau update [SOURCE] [--force] [--offline]

Update the packages that are not pinned; a repository with a ref is made to fit it. A failed update leaves what was
there. --force discards changes in the folder of a repository. tau does not update itself.""",
}
