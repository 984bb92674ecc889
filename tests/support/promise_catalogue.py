"""The catalogue of guarantees and faults behind docs/reliability.md.

A test declares the row that it covers with `@pytest.mark.promise("A02")`. The row
ids are quoted elsewhere and never change: H and I were added last and stand next to
related rows. `scripts/reliability.py` generates the page.
"""

from __future__ import annotations

from support.promise_front_ends import FRONT_END_PROMISES, FRONT_ENDS, MORE_OF_ACP, MORE_OF_MCP
from support.promise_rows import Part, Promise, Row

PROMISES = (
    Promise("P1", "stdin", "Every line gets exactly one response, and no line ends the process; blank lines get none."),
    Promise("P2", "stdin", "An acknowledged prompt or message is in the file or the queue, and survives kill -9."),
    Promise("P3", "stdin", "Every field is validated. An error names the wrong field, and nothing has changed."),
    Promise("P4", "stdin", "A line over 32 MiB is rejected while it arrives, in linear time; the next one works."),
    Promise(
        "P5", "stdout", "stdout carries only tau's records, whatever extensions, their children or libraries print."
    ),
    Promise(
        "P6",
        "stdout",
        "A stalled reader costs at most 32 MiB; deltas are merged, and no response or final event is lost.",
    ),
    Promise("P7", "stdout", "When the client goes away, tau saves the session, kills tools and exits, within 2 s."),
    Promise(
        "P8",
        "models",
        "A tool runs only with arguments that are complete, valid and from a stream that ended properly.",
    ),
    Promise(
        "P9",
        "models",
        "A server that fails, stalls or disconnects causes an error, not a finished answer; the received part is kept.",
    ),
    Promise(
        "P10",
        "models",
        "Server errors are truncated to 4 KiB and secrets are masked before they are shown or sent anywhere.",
    ),
    Promise(
        "P11",
        "models",
        "An answer has limits (16 MiB per event, 64 MiB in total, also decompressed); reading it is linear.",
    ),
    Promise("P12", "tools", "Command output is bounded in memory and on disk, and clients receive it as valid text."),
    Promise(
        "P13",
        "tools",
        "2 s after an abort, a timeout, a signal or kill -9, no process of a command is alive.",
    ),
    Promise(
        "P14",
        "tools",
        "Commands get three streams and no other descriptor; a setting removes keys from their environment.",
    ),
    Promise(
        "P15",
        "tools",
        "`read` refuses files that are not regular, process internals and tau's keys; any file size is safe.",
    ),
    Promise("P16", "files", "`write` and `edit` leave either the old or the new file, with its mode, owner and links."),
    Promise("P17", "files", "`edit` changes only the bytes that it reports as changed."),
    Promise(
        "P18", "files", "With a setting, a file that changed since the model read it is neither edited nor overwritten."
    ),
    Promise(
        "P19",
        "projects",
        "Nothing of a project is executed or applied before it is trusted; trust is bound to its content.",
    ),
    Promise("P20", "projects", "Tools do not write files that control the agent, unless the user allows it."),
    Promise("P21", "extensions", "A failing extension affects only itself; guards fail closed."),
    Promise(
        "P22",
        "sessions",
        "One writer; entries are written before they are reported; a damaged line loses only itself, and is reported.",
    ),
    Promise(
        "P23", "sessions", "A file that is not a session is never written to; anything but a regular file is refused."
    ),
    Promise(
        "P24",
        "sessions",
        "A failed write is reported immediately, keeps its place in the queue, and is retried until it succeeds.",
    ),
    Promise(
        "P25", "sessions", "A session of any shape or size opens in bounded time and memory, and problems are reported."
    ),
    Promise("P26", "secrets", "Files that tau creates are private (0600 in 0700) and have unpredictable names."),
    Promise(
        "P27", "exports", "Nothing from the conversation runs in an exported page, and the page makes no requests."
    ),
    Promise("P28", "exports", "An export never overwrites a file that is not an export of tau."),
    Promise("P29", "server", "No server without authentication, not even on this machine."),
    Promise(
        "P30",
        "machine",
        "Every queue has a limit; a full queue is a clear error, and long-running processes do not grow.",
    ),
    Promise(
        "P31",
        "settings",
        "A broken settings, key, model or trust file is reported, left unchanged, and affects only itself.",
    ),
    Promise("P32", "sandbox", "With the sandbox on, commands run inside it or not at all."),
    Promise(
        "P33", "MCP", "A broken or hostile MCP server fails its own calls and nothing else; no call is made twice."
    ),
    Promise(
        "P34",
        "telemetry",
        "Off unless asked for; content and keys stay here by default; no receiver can delay, stop or swell a run.",
    ),
    *FRONT_END_PROMISES,
)

PARTS = (
    Part(
        "Input lines",
        (
            Row("A01", ("P1",), "A line of broken JSON", "one error, and the next command works"),
            Row("A02", ("P1",), "The line `null`", "one error"),
            Row("A03", ("P1",), "A number, a string, an array or `true` instead of a command", "one error each"),
            Row("A04", ("P1",), "No type, a type that is not a string, an unknown type", "one error each"),
            Row("A04b", ("P1",), "An unknown command with an id", "the error has the id"),
            Row("A05", ("P1",), "NUL bytes", "one error"),
            Row("A06", ("P1",), "Bytes that are not valid UTF-8", "one error"),
            Row("A07", ("P1",), "A line nested 100,000 deep", "one answer"),
            Row("A08", ("P1",), "NaN, Infinity, and numbers beyond a double", "one answer"),
            Row("A09", ("P1",), "Blank lines and CRLF", "ignored; a line ending"),
            Row("A10", ("P1",), "A byte order mark before the line", "one error"),
            Row("A11", ("P1",), "`__proto__` and similar names, as a type or a field", "treated like any other name"),
            Row("A12", ("P1",), "The same id for two commands", "two responses"),
            Row("A13", ("P1",), "An id that is not a string", "echoed unchanged"),
            Row(
                "A14",
                ("P3",),
                "Each field of each command with each wrong type",
                "refused, field named, nothing changed",
            ),
            Row("A15", ("P1", "P3"), "Invalid prompts", "the session works as before"),
            Row("A16", ("P1",), "U+2028 and U+0085 in a string, byte by byte", "treated as content"),
            Row("A17", ("P1",), "A last line without a newline", "answered, exit 0"),
            Row("A18", ("P4",), "A line of 100 MB", "rejected in linear time and little memory"),
            Row("A19", ("P30",), "100,000 commands at once", "as many responses, in order"),
            Row("A20", ("P30",), "2,000 follow-ups during a run", "queued or refused; output stays linear"),
            Row("A21", ("P1",), "A client that exits in the middle of a line", "a clean exit"),
            Row("A22", ("P1",), "A response to a dialog that does not exist", "ignored"),
            Row("H11", ("P1",), "Thousands of mutated lines", "one response each, no crash"),
        ),
    ),
    Part(
        "Order, exit, processes",
        (
            Row("B01", ("P1",), "Aborts, compactions, exports while idle", "one response each"),
            Row("B02", ("P22",), "A compaction during a run", "the run ends as aborted and is saved"),
            Row("B03", ("P22",), "A new session during a run", "the run ends, its partial answer is saved"),
            Row("B04", ("P22",), "A fork during a run", "the same"),
            Row("B05", ("P22",), "A session switch during a run", "the same"),
            Row("B06", ("P3",), "A prompt during a run without a queueing mode", "refused"),
            Row("B07", ("P2",), "Prompts in one write", "each runs, is queued or is refused; none is lost"),
            Row("B08", ("P13",), "Two shell commands and one abort for both", "both end"),
            Row(
                "B09",
                ("P7", "P13"),
                "A client that closes both pipes during a tool call",
                "tool killed, session saved, 2 s",
            ),
            Row("B10", ("P7", "P13"), "SIGTERM during a tool call", "the same"),
            Row("B11", ("P7", "P13"), "SIGINT during a tool call", "the same"),
            Row("B12", ("P7", "P13"), "kill -9 of the agent during a tool call", "the tool is killed too"),
            Row("B13", ("P13",), "An abort of a tool that ignores signals", "gone in 2 s"),
            Row("B14", ("P13",), "An abort of a tool that called setsid", "gone in 2 s"),
            Row("B15", ("P13",), "An abort of a tool that forked a daemon", "gone in 2 s"),
            Row("B16", ("P2",), "Steering while idle", "kept for the next prompt"),
            Row("B17", ("P3",), "Unknown modes", "refused, settings unchanged"),
            Row("B18", ("P13",), "An abort during a compaction, a retry delay, a sign-in", "answered in 1 s"),
            Row("B19", ("P7",), "SIGHUP, and SIGTERM twice", "a defined exit code, session saved"),
        ),
    ),
    Part(
        "Output and extensions",
        (
            Row("C01", ("P7",), "A client that closes stdout during an answer", "session saved, 2 s, no traceback"),
            Row(
                "C02",
                ("P6",),
                "A client that stops reading during an answer",
                "little memory, and everything arrives later",
            ),
            Row(
                "C03",
                ("P6",),
                "A long answer in thousands of deltas",
                "at most ten bytes of output per byte of the answer",
            ),
            Row(
                "I01",
                ("P6",),
                "A hundred large responses that the client does not read",
                "little memory, and all arrive later",
            ),
            Row("C10", ("P5", "P21"), "An extension that prints", "not on tau's stdout"),
            Row("C11", ("P5", "P21"), "An extension that writes to descriptor 1", "not on tau's stdout"),
            Row("C12", ("P5", "P21"), "A child of an extension that prints", "not on tau's stdout"),
            Row(
                "C13", ("P21",), "An explicitly named extension that raises while loading", "error names the file, exit"
            ),
            Row("C14", ("P21",), "An explicitly named extension that is not Python", "error names the file, exit"),
            Row("G14", ("P21",), "A broken extension in the agent folder", "reported, the rest works"),
            Row("C15", ("P21",), "An extension that raises on an event", "reported, the run continues"),
            Row("C16", ("P21",), "A guard that raises", "the tool does not run"),
            Row("C17", ("P21",), "An extension that exits", "only that extension ends"),
            Row("C18", ("P21",), "A failing task of an extension", "only that extension is affected"),
            Row("C19", ("P21",), "A failing timer of an extension", "only that extension is affected"),
            Row("C20", ("P21",), "An extension that hangs while loading", "reported after the timeout, the rest works"),
            Row("C21", ("P21",), "A handler that never returns", "the run continues after the timeout"),
            Row("C22", ("P21",), "A guard that never returns, and an abort", "answered in 1 s"),
            Row("C23", ("P21",), "A shutdown handler that hangs", "exit within 2 s"),
            Row("C24", ("P21",), "An extension that loops, and an abort", "answered in 1 s"),
            Row("C25", ("P21",), "An unanswered dialog, and an abort", "dialog closed, answered in 1 s"),
            Row("C26", ("P21",), "An extension that uses all memory", "only that extension is killed"),
        ),
    ),
    Part(
        "Sessions",
        (
            Row(
                "D01",
                ("P22",),
                "A last line that is truncated anywhere",
                "everything before it is kept, and later entries too",
            ),
            Row("D02", ("P22",), "A tail of NULs, as after a power loss", "the same"),
            Row("D03", ("P22",), "A line destroyed in the middle", "the others are kept, the client is notified"),
            Row("D04", ("P23",), "`--session` with a file that is not a session", "refused, file untouched"),
            Row("D05", ("P23",), "A switch to a file that is not a session", "refused, file untouched"),
            Row("D06", ("P23",), "A torn header", "refused, file untouched"),
            Row("D07", ("P25",), "Parents in a circle", "opens, with a report"),
            Row("D08", ("P25",), "Duplicate entries", "opens"),
            Row("D09", ("P25",), "Valid JSON of wrong shapes", "bad entries are skipped and reported"),
            Row("D10", ("P22",), "Two processes on one session", "the second is refused"),
            Row("D11", ("P2", "P22"), "kill -9 at random moments", "everything that was reported is in the file"),
            Row("D12", ("P2",), "kill -9 during the first answer", "the prompt is in the file"),
            Row("D13", ("P26",), "A session under a usual umask", "0600 in 0700"),
            Row("H07", ("P24",), "A disk that is full for a while", "reported; later everything is written"),
            Row("H08", ("P24",), "A disk that fails every write", "reported immediately"),
            Row("D16", ("P24",), "A folder that is not writable", "reported"),
            Row("D17", ("P24",), "A file deleted while it is in use", "written again completely"),
            Row("D18", ("P22",), "A clock that goes back an hour", "the order is preserved"),
            Row(
                "H10", ("P23",), "A switch to a device, a pipe, a folder, a missing path", "refused with a clear error"
            ),
            Row("D20", ("P22",), "Truncation at every byte of a long session", "as D01, each time"),
            Row("D21", ("P22", "P24"), "An fsync that fails once", "reported, and repeated on a new descriptor"),
            Row("D22", ("P24",), "A quota, a disk that becomes read-only", "as H07"),
            Row(
                "D23", ("P25",), "A session of 1 GB or of a million entries", "opens in bounded memory; lists are quick"
            ),
            Row("D24", ("P22",), "kill -9 while an old session is migrated", "the old file or the new one"),
        ),
    ),
    Part(
        "Models",
        (
            Row("E01", ("P9",), "A connection reset after any event", "an error, the received part is kept"),
            Row("E02", ("P9",), "A connection closed after any event", "the same"),
            Row("E03", ("P9",), "A body that ends cleanly but too early", "an error that is retried"),
            Row("E04", ("P8",), "A stream that ends within tool arguments", "the tool does not run"),
            Row("E05", ("P9",), "An invalid event", "an error"),
            Row("E06", ("P9",), "An HTML page instead of an answer", "an error"),
            Row("E07", ("P9",), "An empty body", "an error"),
            Row("E08", ("P9",), "Only the final event", "an error"),
            Row("E09", ("P9",), "An unknown stop reason", "an error that names it"),
            Row("E10", ("P9",), "A server that requests a delay of 2 s", "tau waits"),
            Row("E11", ("P9",), "A server that requests a delay of a day", "reported within 1 s; abort works"),
            Row(
                "E12",
                ("P9",),
                "A permanently overloaded server",
                "several attempts, an error, and the next prompt works",
            ),
            Row("E13", ("P10",), "A wrong key", "reported without the key, not retried"),
            Row("E14", ("P9",), "A conversation that is too long", "compaction or an error, no loop"),
            Row("E15", ("P10",), "An error of 200 KB", "truncated"),
            Row("E16", ("P11",), "An event of 40 MB", "refused in linear time"),
            Row("H06", ("P11",), "An event of 10 MB", "read within 10 s of CPU time"),
            Row("E17", ("P11",), "A decompression bomb", "bounded memory, an error"),
            Row("E18", ("P8",), "Calls with the same id", "their results stay separate"),
            Row("E19", ("P8",), "Truncated arguments in a complete answer", "the tool does not run"),
            Row("E20", ("P8",), "Wrong types, an unknown tool, arguments that are not an object", "an error each"),
            Row("E21", ("P9",), "A stream that stalls, and an abort", "answered in 1 s, the received part is kept"),
            Row("E22", ("P9",), "A stream that stalls forever", "an error after the timeout"),
            Row("E23", ("P9",), "Connection refused", "several attempts, then an error"),
            Row("E24", ("P9",), "A model that repeats a call forever", "a limit if one is set; abort works"),
            Row("E25", ("P9",), "One byte at a time", "a normal answer"),
            Row("E26", ("P22",), "Half characters, NUL and ESC in text", "the session stays JSON in UTF-8"),
            Row("E27", ("P8",), "200 calls in one answer", "200 results"),
            Row(
                "E28",
                ("P9",),
                "An unknown host, a bad certificate, a proxy that requires a password",
                "an error; retried if that can help",
            ),
            Row(
                "E29",
                ("P9",),
                "A token that cannot be obtained, or expires during a run",
                "requested once more, then an error",
            ),
        ),
    ),
    Part(
        "Tools and files",
        (
            Row(
                "F01",
                ("P13",),
                "A child that keeps the pipe open",
                "immediate result, the child is killed with the run",
            ),
            Row("F02", ("P12",), "Output with NUL and ESC", "valid JSON without terminal sequences"),
            Row("F03", ("P12",), "Gigabytes of output", "bounded in memory and on disk"),
            Row("F04", ("P14",), "A command that reads stdin", "stdin is empty"),
            Row("F05", (), "A command that deletes its working folder", "a clear error for the next command"),
            Row("F06", ("P13",), "A timeout of a command that ignores signals", "gone in 2 s"),
            Row("F07", ("P14",), "Keys in the environment", "removed from commands by a setting"),
            Row("F08", ("P15",), "`read` of a pipe", "refused"),
            Row("F09", ("P15",), "`read` of an endless device", "refused"),
            Row("F10", ("P15",), "`read` of five lines of 3 GB", "five lines"),
            Row("F10b", ("P15",), "`read` of five lines of 400 MB", "in little time and memory"),
            Row("F11", ("P17",), "`edit` of a file in Latin-1", "all other bytes are preserved"),
            Row(
                "F12", ("P17",), "`edit` with a byte order mark and mixed line endings", "all other lines are preserved"
            ),
            Row("F13", ("P16",), "`edit` on a full disk", "the old file is kept"),
            Row("F14", ("P16",), "kill -9 during a `write`", "the old file or the new one"),
            Row("F15", ("P16",), "`edit` through a symlink, of a file with a mode and hard links", "all preserved"),
            Row("F16", (), "A command of 3 MB", "a clear error"),
            Row("F17", (), "NUL in a command", "a clear error"),
            Row("F18", (), "Impossible paths and numbers", "a clear error each"),
            Row("F19", ("P13",), "Many commands in a row", "no zombies, no leaked descriptors"),
            Row("F20", ("P26",), "The file of a long output", "0600, and an unpredictable name"),
            Row("F20b", ("P26",), "A link in place of that file", "not followed"),
            Row("F21", ("P15",), "A name in another Unicode normal form", "found"),
            Row("F22", ("P15",), "A file that only claims to be an image", "no harm"),
            Row("F23", ("P15",), "An image that would fill the memory", "refused"),
            Row("F24", (), "A pattern that starts with a dash", "treated as a pattern"),
            Row("F25", ("P14",), "Files that the agent has open", "not inherited by its commands"),
            Row("F26", ("P18",), "A file that changed since it was read", "not edited, if the setting is on"),
            Row(
                "F27",
                ("P15",),
                "A search over pipes, devices, link loops and millions of files",
                "bounded; abort in 1 s",
            ),
            Row("F28", (), "A fork bomb", "it is killed, the agent survives"),
            Row("H01", ("P15",), "`read` of the environment of a process", "refused"),
            Row("H02", ("P15",), "`read` of tau's keys", "refused"),
            Row("H03", ("P20",), "`write` into the extensions folder", "refused"),
        ),
    ),
    Part(
        "Settings, trust, exports, secrets",
        (
            Row(
                "G01",
                ("P31",),
                "Settings that are truncated, empty or of wrong types",
                "defaults; reported, left unchanged",
            ),
            Row("G02", ("P31",), "A broken models file", "reported, left unchanged"),
            Row("G03", ("P31",), "A broken key file", "reported, left unchanged"),
            Row("G04", ("P26",), "A key file that others can read", "mode corrected, and reported"),
            Row("G05", ("P19",), "A repository with an extension", "not run"),
            Row("G06", ("P19",), "A repository that sets a command prefix", "not applied"),
            Row("G07", ("P19",), "A repository with a system prompt", "not used"),
            Row("G08", ("P19",), "A repository that sets the session folder", "not applied"),
            Row("G09", ("P19",), "A repository whose git configuration runs programs", "they do not run"),
            Row(
                "G10",
                ("P26", "P27"),
                "Markup and scripts in an exported conversation",
                "inert, in a private file",
            ),
            Row("G11", ("P28",), "An export onto a file that is not an export", "refused"),
            Row("G12", ("P10",), "A server that repeats tau's key", "masked everywhere"),
            Row("G13", ("P31",), "An agent folder that is not writable", "a one-line error"),
        ),
    ),
    Part(
        "Server mode",
        (
            Row("N01", ("P29",), "No token, a wrong one, one in the URL", "refused"),
            Row("N02", ("P29",), "A wrong host name", "refused"),
            Row("N03", ("P29",), "A request from a web page", "refused"),
            Row("N04", ("P29",), "A thousand connections, slow ones, huge ones", "bounded, others are served"),
            Row("N05", ("P29",), "A message without end", "disconnected"),
            Row("N06", ("P29",), "A token that others can read", "tau does not start"),
            Row("N07", ("P29",), "A publicly reachable address", "tau does not start"),
            Row("N08", ("P29",), "Two clients", "each receives only its own responses"),
            Row("N09", ("P2",), "A keyed prompt that is repeated after any death", "it runs once"),
            Row("N10", ("P6",), "A connection that is cut at any byte, and resumed", "nothing missing, nothing twice"),
            Row("N11", ("P6",), "A client of a host that stops reading", "costs little, and slows nobody"),
            Row("N12", ("P29",), "A client with the scope watch", "changes nothing"),
            Row("N13", ("P29",), "A client that asks for more than the host allows", "refused"),
            Row("N14", ("P29",), "A revoked credential", "its channels end within a second"),
            Row("N15", ("P29",), "Credentials in logs, URLs, cookies, files", "never"),
            Row("N16", ("P29",), "Pages of other sites, and frames", "nothing runs, nothing is called"),
            Row("N17", ("P7",), "A run whose clients are gone", "goes on and ends without them"),
        ),
    ),
    Part(
        "Trust",
        (
            Row("S01", ("P19",), "Environment variables in a project's files", "not applied"),
            Row(
                "S02",
                ("P19",),
                "A project that redirects models to another server",
                "not applied; no key is sent there",
            ),
            Row("S03", ("P19",), "A trust file inside the project", "not applied"),
            Row("S04", ("P19",), "A link in place of a trusted folder", "not trusted"),
            Row("S05", ("P19",), "An extension that changes after it was trusted", "not trusted any more"),
            Row("S06", ("P19",), "A command that changes under the same name", "not trusted any more"),
            Row("S07", ("P20",), "A sandboxed command that writes files that control the agent", "stopped"),
        ),
    ),
    Part(
        "Telemetry",
        (
            Row("O01", ("P34",), "Content, paths, commands and keys in every place", "in no byte that is sent"),
            Row("O02", ("P34",), "Content that the user asks for, with keys in it", "the keys are masked"),
            Row("O03", ("P34",), "A receiver that refuses, hangs, fails or answers too much", "one warning"),
            Row("O04", ("P34",), "More spans than a receiver takes", "the newest are dropped and counted"),
            Row("O05", ("P34",), "A program that has telemetry of its own", "it is left alone"),
            Row("O06", ("P34",), "Many sessions in one process", "no span in the trace of another"),
            Row("O07", ("P34",), "A start and a run without telemetry", "nothing of it is loaded or sent"),
        ),
    ),
    Part(
        "MCP servers",
        (
            Row("M01", ("P33",), "A server that exits, is silent or speaks an unknown version", "failed; prompts run"),
            Row("M02", ("P33",), "A server that takes long to start", "waited for 5 s, once; a start never waits"),
            Row("M03", ("P33",), "A crash in a call, again and again", "calls fail once; three restarts, then none"),
            Row("M04", ("P33",), "Noise, broken JSON, wrong and doubled ids", "dropped; no call gets another answer"),
            Row("M05", ("P33",), "A line of 40 MB", "ends the connection; memory stays bounded"),
            Row("M06", ("P33",), "Endless lists, definitions without sense, names that collide", "limited, left out"),
            Row("M07", ("P33",), "A tool that changes after it was allowed", "asked about again"),
            Row("M08", ("P33",), "HTTP errors, redirects, broken streams in a call", "an error; never repeated"),
            Row("M09", ("P13",), "EOF, SIGTERM, kill -9; a server and its child ignore signals", "gone after 2 s"),
            Row("M10", ("P19",), "Servers of an untrusted project", "not started, nothing is sent"),
            Row("M11", ("P10", "P14"), "Keys and tokens in environment, errors, logs and caches", "left out, masked"),
            *MORE_OF_MCP,
        ),
    ),
    Part(
        "Sandbox",
        (
            Row("X01", ("P32",), "Writing outside the writable folders", "stopped"),
            Row("X02", ("P32",), "Reading files that may not be read", "stopped"),
            Row("X03", ("P32",), "Reading them through a link", "stopped"),
            Row("X04", ("P32",), "Linking or moving them", "stopped"),
            Row("X05", ("P32",), "TCP to this machine and to others", "stopped"),
            Row("X06", ("P32",), "UDP, raw and netlink sockets", "stopped"),
            Row("X07", ("P32",), "Signalling and inspecting other processes", "stopped"),
            Row("X08", ("P32",), "Outliving the command", "stopped"),
            Row("X09", ("P32",), "Namespaces, mounts, io_uring, bpf, kernel keyrings", "stopped"),
            Row("X10", ("P32",), "Writing git hooks and settings, and tau's own files, inside", "stopped"),
            Row("X11", ("P32",), "Sockets of services on this machine", "stopped"),
            Row("X12", ("P32",), "A kernel without support", "tau does not start"),
        ),
    ),
    Part(
        "Editors (ACP)",
        (
            Row("K01", ("P1",), "Lines such as `42`, broken JSON, a batch, wrong fields", "one error each, and no end"),
            Row("K02", ("P1",), "Thousands of mutated requests", "one valid response each; memory does not grow"),
            Row("K03", ("P9",), "The provider refuses the key, or fails", "an error with its sentence"),
            Row("K04", ("P21",), "A permission question gets a wrong, late or no answer", "the call is denied"),
            Row("K05", ("P13",), "A cancel before, during and after each step of a prompt", "`cancelled`, soon"),
            Row("K06", ("P7",), "The editor closes stdin or is killed during a run", "everything ends, exit 0"),
            Row("K07", ("P22",), "kill -9 after an answered prompt", "session/load has everything that was sent"),
            Row("K08", ("P6",), "The editor stops reading during an answer", "bounded memory; the text is complete"),
            Row("K09", ("P1",), "Many sessions in one process, side by side", "each gets only its own updates"),
            *MORE_OF_ACP,
        ),
    ),
    *FRONT_ENDS,
    Part(
        "Long-running processes",
        (
            Row("Z01", ("P30",), "10,000 prompts in one process", "memory, descriptors and threads do not grow"),
            Row("Z02", ("P30",), "1,000 switches, reloads, restarts of extensions", "no growth"),
            Row("Z03", ("P30",), "Days of idle time, suspend, a clock that jumps", "answers in 1 s"),
            Row(
                "Z04",
                ("P22",),
                "The OOM killer ends tau or a tool",
                "session intact; the result says so",
            ),
            Row(
                "Z05",
                ("P2", "P22"),
                "Random faults, one after another",
                "nothing acknowledged is lost, nothing hangs",
            ),
            Row("Z06", ("P30",), "Hundreds of sessions that have just answered", "few connections stay open"),
        ),
    ),
)

# Duplicate rows: the key is an alias of the value.
SAME = {"G15": "B07", "H09": "D09", "H05": "E11", "H04": "E12"}

ROWS = {row.id: row for part in PARTS for row in part.rows}


def described(name: str) -> str:
    """A row and its promises in words, as docs/reliability.md has them; an unknown name as it is."""
    row = ROWS.get(SAME.get(name, name))
    if row is None:
        return name
    promises = [f"    {promise.id}: {promise.says}" for promise in PROMISES if promise.id in row.promises]
    return "\n".join([f"{name}: {row.fault} -> {row.outcome}", *promises])


# Rows whose tests are still missing. It should be empty; remove a row when it has its test.
TO_COME: set[str] = set()

# The figures that a change must keep. The last results are in tests/gate/records.jsonl.
GOALS = {
    "R1": "kill -9 at random moments: acknowledged data that is lost",
    "R2": "sessions truncated or damaged at every place: intact entries that are lost",
    "R3": "the n-th system call fails: silent losses",
    "R4": "mutated lines: crashes, and lines without exactly one response",
    "R5": "mutated sessions and streams: crashes and hangs",
    "R6": "accepted wrong values, over all fields of all commands",
    "R7": "a line of 100 MB: time and memory until it is rejected",
    "R8": "a reader that stalls for a minute: memory, and lost responses",
    "R9": "bytes of output per byte of a long answer",
    "R10": "time from an abort to its response, in any state",
    "R11": "processes left after any kind of stop",
    "R12": "10 GB of output: memory and disk",
    "R13": "five lines of a file of 10 GB: memory and time",
    "R14": "tool calls that run with arguments truncated at any byte",
    "R15": "kill -9 and full disks during `edit` and `write`: files neither old nor new",
    "R16": "bytes changed outside an edit",
    "R17": "faults of extensions: crashes, lines that are not records, delayed aborts",
    "R18": "faults of servers, with each API: runs that end wrongly",
    "R19": "files that others can read, and secrets where they should not be",
    "R20": "attacks by a repository that work without trust",
    "R21": "payloads in an export that run or send requests, in a browser",
    "R22": "requests to a server that should be refused",
    "R23": "many prompts in one process: growth and failures",
    "R24": "an hour of random faults: losses, hangs, lines that are not records",
    "R25": "sandbox escapes",
    "R26": "the cost of safety: an fsync, and the start of a command",
    "R27": "a host that is killed, and clients that are cut off or stop reading: losses, repetitions, memory, delays",
    "R28": "a fleet whose coordinator is killed: results that are lost or doubled, and whether it goes on",
    "R29": "telemetry: content that is sent, sessions that are mixed, what a receiver that hangs costs",
    "R30": "the terminal: controls that reach it, questions answered by other keys, what is left on, memory of a stall",
    "R31": "an editor over ACP: invalid responses, losses by kill -9, late cancels",
    "R32": "MCP: mutated messages, kills of servers and agents, calls made twice, processes left",
    "R33": "packages and TypeScript extensions: states that are neither old nor new, harm done to others",
    "R34": "a fleet with random faults: broken invariants, tables unlike that of a quiet run, changed repositories",
    "R35": "payloads in the live page that run or send requests, in a browser",
    "R36": "hundreds of sessions that have just answered: failures, idle connections",
}
GOALS_ABSENT: dict[str, str] = {}

# The rows that the figures of a goal are about: `make gate` prints them beside each row.
GOAL_ROWS = {
    "R1": "D11 D12",
    "R2": "D01 D02 D03 D20",
    "R3": "H07 H08 D21 D22",
    "R4": "H11",
    "R5": "D09 E05 E06 E26",
    "R6": "A14",
    "R7": "A18",
    "R8": "C02 I01",
    "R9": "C03",
    "R10": "B18 C22 C24 C25 E21",
    "R11": "B09 B10 B11 B12 B13 B14 B15 F01",
    "R12": "F03",
    "R13": "F10 F10b",
    "R14": "E04 E19",
    "R15": "F13 F14",
    "R16": "F11 F12",
    "R17": "C10 C11 C16 C17 C18 C19 C21 C24 C26",
    "R18": "E01 E02 E03 E07 E08 E09 E12 E15 E16 E17",
    "R19": "D13 F07 F20 G12",
    "R20": "G05 G06 G07 G08 G09 S01 S02 S03 S04 S05 S06",
    "R21": "G10",
    "R22": "N01 N02 N03",
    "R23": "Z01 Z02",
    "R24": "Z05",
    "R25": "X01 X02 X03 X04 X05 X06 X07 X08 X09 X10 X11",
    "R26": "",
    "R27": "N09 N10 N11",
    "R28": "W02",
    "R29": "O01 O02 O03 O04 O06",
    "R30": "T01 T02 T04 T07 T08 T12 T14",
    "R31": "K02 K05 K07",
    "R32": "M03 M09 M12 M17",
    "R33": "U05 J01 J02 J06",
    "R34": "W03 W04 W14 W17 W19",
    "R35": "N16",
    "R36": "Z06",
}
