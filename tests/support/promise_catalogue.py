"""What is promised, and the faults that were thought of: the catalogue behind docs/reliability.md.

A test that holds a row says so with `@pytest.mark.promise("A02")`. The letters of
the rows are old and stay, since people quote them: H and I were found last and
stand with what they are about. `scripts/reliability.py` makes the page.
"""

from __future__ import annotations

from typing import NamedTuple


class Promise(NamedTuple):
    id: str
    about: str
    says: str


class Row(NamedTuple):
    """A fault or an abuse, and what comes of it."""

    id: str
    promises: tuple[str, ...]  # ids of promises; none if it is only good manners
    fault: str
    outcome: str
    absent: str = ""  # why it does not apply; empty if it does


class Part(NamedTuple):
    title: str
    rows: tuple[Row, ...]


NO_SERVER = "there is no server mode"

PROMISES = (
    Promise("P1", "stdin", "Every line gets exactly one response, and no line ends the process; blank lines get none."),
    Promise(
        "P2", "stdin", "A prompt or message that was acknowledged is in the file or the queue, and survives kill -9."
    ),
    Promise("P3", "stdin", "Every field is checked. A wrong one is named in a failure, and nothing has changed."),
    Promise("P4", "stdin", "A line over 32 MiB is refused while it comes, in linear time; the next one works."),
    Promise(
        "P5", "stdout", "Nothing but our records comes out, whatever extensions, their children or libraries print."
    ),
    Promise(
        "P6", "stdout", "A reader that stalls costs 32 MiB at most; deltas are merged, and no response or end is lost."
    ),
    Promise("P7", "stdout", "When the client is gone, the session is saved, tools are ended, and so are we, in 2 s."),
    Promise(
        "P8", "models", "A tool runs only on arguments that are complete, valid and from a stream that ended well."
    ),
    Promise(
        "P9",
        "models",
        "A server that fails, stalls or breaks off makes an error, never a finished answer; what came is kept.",
    ),
    Promise("P10", "models", "Errors of servers are cut to 4 KiB and hold no secret before anybody is told of them."),
    Promise(
        "P11",
        "models",
        "An answer has limits (an event 16 MiB, all of it 64 MiB, also unpacked); reading it is linear.",
    ),
    Promise("P12", "tools", "Output of a command is bounded in memory and on disk, and is text when a client gets it."),
    Promise(
        "P13",
        "tools",
        "Stop means stop: 2 s after an abort, a timeout, a signal or kill -9 nothing of a command is alive.",
    ),
    Promise("P14", "tools", "Commands get three streams and no other file; keys are kept from them by a setting."),
    Promise(
        "P15", "tools", "`read` refuses what is no regular file, insides of processes and our keys; size is no danger."
    ),
    Promise("P16", "files", "`write` and `edit` leave the old file or the new one, with its mode, owner and links."),
    Promise("P17", "files", "`edit` changes the bytes it says it changes, and no other."),
    Promise(
        "P18", "files", "By a setting, a file that changed since the model read it is neither edited nor overwritten."
    ),
    Promise(
        "P19",
        "projects",
        "Nothing of a project is executed or heeded before it is trusted; trust is bound to its content.",
    ),
    Promise("P20", "projects", "Tools do not write what decides about the agent, unless the user lets them."),
    Promise("P21", "extensions", "An extension that fails in any way harms itself only; a gate that fails is shut."),
    Promise(
        "P22",
        "sessions",
        "One writer, written before it is told; a damaged line costs itself only, and that is reported.",
    ),
    Promise("P23", "sessions", "A file that is no session is never written to, and what is no file is refused."),
    Promise(
        "P24", "sessions", "A write that fails is told at once, waits in its place, and is made good when it can be."
    ),
    Promise("P25", "sessions", "A session of any shape or size opens in bounded time and memory, with a report."),
    Promise(
        "P26", "secrets", "Files we make are for their owner only (0600 in 0700) and have names nobody can foresee."
    ),
    Promise("P27", "exports", "Nothing of the conversation runs in an exported page, and the page calls nobody."),
    Promise("P28", "exports", "An export never goes over a file that is not an export of ours."),
    Promise("P29", "server", "No server without authentication, on this machine neither."),
    Promise(
        "P30", "machine", "Every queue has a limit; a full one is an error in words, and a long life costs no more."
    ),
    Promise(
        "P31", "settings", "A broken file of settings, keys, models or trust is named, left as it is, and costs itself."
    ),
    Promise("P32", "sandbox", "With the sandbox on, commands stay within it or do not run."),
)

PARTS = (
    Part(
        "Input lines",
        (
            Row("A01", ("P1",), "A line of broken JSON", "one error, and the next command works"),
            Row("A02", ("P1",), "The line `null`", "one error"),
            Row("A03", ("P1",), "A number, a text, a list or `true` for a command", "one error each"),
            Row("A04", ("P1",), "No type, a type that is no text, an unknown one", "one error each"),
            Row("A04b", ("P1",), "An unknown command with an id", "the error has the id"),
            Row("A05", ("P1",), "NUL bytes", "one error"),
            Row("A06", ("P1",), "Bytes that are no UTF-8", "one error"),
            Row("A07", ("P1",), "A line nested 100,000 deep", "one answer"),
            Row("A08", ("P1",), "NaN, Infinity, and numbers beyond a double", "one answer"),
            Row("A09", ("P1",), "Blank lines and CRLF", "passed over; a line end"),
            Row("A10", ("P1",), "A byte order mark before the line", "one error"),
            Row("A11", ("P1",), "`__proto__` and its like, as a type or a field", "words like any other"),
            Row("A12", ("P1",), "One id for two commands", "two responses"),
            Row("A13", ("P1",), "An id that is no text", "comes back unchanged"),
            Row("A14", ("P3",), "Each field of each command with each wrong type", "refused, named, nothing changed"),
            Row("A15", ("P1", "P3"), "Prompts that are no prompts", "the session works as before"),
            Row("A16", ("P1",), "U+2028 and U+0085 in a text, byte by byte", "content like any other"),
            Row("A17", ("P1",), "A last line without newline", "answered, exit 0"),
            Row("A18", ("P4",), "A line of 100 MB", "refused in linear time and little memory"),
            Row("A19", ("P30",), "100,000 commands at once", "as many responses, in order"),
            Row("A20", ("P30",), "2,000 follow-ups during a run", "queued or refused; output stays linear"),
            Row("A21", ("P1",), "A client that ends in the middle of a line", "a clean end"),
            Row("A22", ("P1",), "An answer to a dialog that nobody asked", "passed over"),
            Row("H11", ("P1",), "Thousands of mutated lines", "one response each, no crash"),
        ),
    ),
    Part(
        "Order, end, processes",
        (
            Row("B01", ("P1",), "Aborts, compactions, exports while nothing runs", "one response each"),
            Row("B02", ("P22",), "A compaction during a run", "the run ends as aborted and is kept"),
            Row("B03", ("P22",), "A new session during a run", "the run ends, its half answer is kept"),
            Row("B04", ("P22",), "A fork during a run", "the same"),
            Row("B05", ("P22",), "A switch of session during a run", "the same"),
            Row("B06", ("P3",), "A prompt during a run that does not say how to queue it", "refused"),
            Row("B07", ("P2",), "Prompts in one write", "each runs, waits or is refused; none is lost"),
            Row("B08", ("P13",), "Two shell commands and one abort for them", "both end"),
            Row(
                "B09", ("P7", "P13"), "A client that closes both pipes during a tool", "tool ended, session saved, 2 s"
            ),
            Row("B10", ("P7", "P13"), "SIGTERM during a tool", "the same"),
            Row("B11", ("P7", "P13"), "SIGINT during a tool", "the same"),
            Row("B12", ("P7", "P13"), "kill -9 of the agent during a tool", "the tool ends too"),
            Row("B13", ("P13",), "An abort of a tool that ignores signals", "gone in 2 s"),
            Row("B14", ("P13",), "An abort of a tool that left its session", "gone in 2 s"),
            Row("B15", ("P13",), "An abort of a tool that forked a daemon", "gone in 2 s"),
            Row("B16", ("P2",), "Steering while nothing runs", "kept for the next prompt"),
            Row("B17", ("P3",), "Modes there are not", "refused, settings unchanged"),
            Row("B18", ("P13",), "An abort in a compaction, a wait, a sign-in", "answered in 1 s"),
            Row("B19", ("P7",), "SIGHUP, and SIGTERM twice", "a defined exit code, session saved"),
        ),
    ),
    Part(
        "Output and extensions",
        (
            Row("C01", ("P7",), "A client that closes stdout during an answer", "session saved, 2 s, no traceback"),
            Row("C02", ("P6",), "A client that stops reading during an answer", "little memory, and all comes later"),
            Row("C03", ("P6",), "A long answer in thousands of pieces", "ten bytes out for each of its own, at most"),
            Row("I01", ("P6",), "A hundred large responses that nobody reads", "little memory, and all come later"),
            Row("C10", ("P5", "P21"), "An extension that prints", "not on our stdout"),
            Row("C11", ("P5", "P21"), "An extension that writes to descriptor 1", "not on our stdout"),
            Row("C12", ("P5", "P21"), "A child of an extension that prints", "not on our stdout"),
            Row("C13", ("P21",), "An extension asked for by name that raises at load", "the file is named, exit"),
            Row("C14", ("P21",), "An extension asked for by name that is no Python", "the file is named, exit"),
            Row("G14", ("P21",), "A broken extension in the agent's folder", "reported, the rest works"),
            Row("C15", ("P21",), "An extension that raises on an event", "reported, the run goes on"),
            Row("C16", ("P21",), "A gate that raises", "the tool does not run"),
            Row("C17", ("P21",), "An extension that exits", "only it is gone"),
            Row("C18", ("P21",), "A task of an extension that fails", "only it is hit"),
            Row("C19", ("P21",), "A timer of an extension that fails", "only it is hit"),
            Row("C20", ("P21",), "An extension that hangs at load", "reported after a while, the rest works"),
            Row("C21", ("P21",), "A handler that never returns", "the run goes on after a while"),
            Row("C22", ("P21",), "A gate that never returns, and an abort", "answered in 1 s"),
            Row("C23", ("P21",), "A handler of the end that hangs", "the end comes in 2 s"),
            Row("C24", ("P21",), "An extension that loops, and an abort", "answered in 1 s"),
            Row("C25", ("P21",), "A dialog that nobody answers, and an abort", "dialog ended, answered in 1 s"),
            Row("C26", ("P21",), "An extension that takes all memory", "only it is ended"),
        ),
    ),
    Part(
        "Sessions",
        (
            Row("D01", ("P22",), "A last line that is cut anywhere", "all before it is there, and what is said next"),
            Row("D02", ("P22",), "A tail of NULs, as power loss leaves it", "the same"),
            Row("D03", ("P22",), "A line destroyed in the middle", "the others are there, the client is told"),
            Row("D04", ("P23",), "`--session` with a file that is none", "refused, file untouched"),
            Row("D05", ("P23",), "A switch to a file that is none", "refused, file untouched"),
            Row("D06", ("P23",), "A header that is torn", "refused, file untouched"),
            Row("D07", ("P25",), "Parents in a circle", "opens, with a report"),
            Row("D08", ("P25",), "Entries that stand twice", "opens"),
            Row("D09", ("P25",), "Valid JSON of wrong shapes", "bad entries are left out and reported"),
            Row("D10", ("P22",), "Two processes on one session", "the second is refused"),
            Row("D11", ("P2", "P22"), "kill -9 at random moments", "all that was told is in the file"),
            Row("D12", ("P2",), "kill -9 during the first answer", "the prompt is in the file"),
            Row("D13", ("P26",), "A session under a usual umask", "0600 in 0700"),
            Row("H07", ("P24",), "A disk that is full for a while", "told; later everything is there"),
            Row("H08", ("P24",), "A disk that fails each write", "told at once"),
            Row("D16", ("P24",), "A folder that cannot be written to", "told"),
            Row("D17", ("P24",), "A file deleted while it is in use", "comes back whole"),
            Row("D18", ("P22",), "A clock that goes back an hour", "the order stays"),
            Row("H10", ("P23",), "A switch to a device, a pipe, a folder, a path to nowhere", "refused in words"),
            Row("D20", ("P22",), "A cut at every byte of a long session", "as D01, each time"),
            Row("D21", ("P22", "P24"), "A sync that fails once", "told, and done again on a new descriptor"),
            Row("D22", ("P24",), "A quota, a disk that becomes read-only", "as H07"),
            Row(
                "D23", ("P25",), "A session of 1 GB or of a million entries", "opens in bounded memory; lists are quick"
            ),
            Row("D24", ("P22",), "kill -9 while an old session is lifted", "the old file or the new one"),
        ),
    ),
    Part(
        "Models",
        (
            Row("E01", ("P9",), "A connection reset after any event", "an error, what came is kept"),
            Row("E02", ("P9",), "A connection closed after any event", "the same"),
            Row("E03", ("P9",), "A body that ends well and too early", "an error that is tried again"),
            Row("E04", ("P8",), "A stream that ends within arguments", "the tool does not run"),
            Row("E05", ("P9",), "An event that makes no sense", "an error"),
            Row("E06", ("P9",), "A page in place of an answer", "an error"),
            Row("E07", ("P9",), "An empty body", "an error"),
            Row("E08", ("P9",), "Nothing but the last word", "an error"),
            Row("E09", ("P9",), "An unknown reason to stop", "an error that names it"),
            Row("E10", ("P9",), "A server that asks to wait 2 s", "waited for"),
            Row("E11", ("P9",), "A server that asks to wait for a day", "told within 1 s; abort works"),
            Row(
                "E12",
                ("P9",),
                "A server that is overloaded for good",
                "some tries, an error, and the next prompt works",
            ),
            Row("E13", ("P10",), "A wrong key", "told without the key, not tried again"),
            Row("E14", ("P9",), "A conversation that is too long", "compacted or an error, and no loop"),
            Row("E15", ("P10",), "An error of 200 KB", "cut"),
            Row("E16", ("P11",), "An event of 40 MB", "refused in linear time"),
            Row("H06", ("P11",), "An event of 10 MB", "read within 10 s of work"),
            Row("E17", ("P11",), "A packed answer that bursts", "bounded memory, an error"),
            Row("E18", ("P8",), "Calls with the same id", "their results stay apart"),
            Row("E19", ("P8",), "Arguments that are cut, in an answer that is not", "the tool does not run"),
            Row("E20", ("P8",), "Wrong types, an unknown tool, arguments that are no object", "an error each"),
            Row("E21", ("P9",), "A stream that stalls, and an abort", "answered in 1 s, what came is kept"),
            Row("E22", ("P9",), "A stream that stalls for good", "an error after a while"),
            Row("E23", ("P9",), "Nobody there", "some tries, then an error"),
            Row("E24", ("P9",), "A model that repeats a call for ever", "a limit if one is set; abort works"),
            Row("E25", ("P9",), "One byte at a time", "an answer like any other"),
            Row("E26", ("P22",), "Half characters, NUL and ESC in a text", "the session stays JSON in UTF-8"),
            Row("E27", ("P8",), "200 calls in one answer", "200 results"),
            Row(
                "E28",
                ("P9",),
                "No such host, a bad certificate, a proxy that wants a password",
                "an error; tried again if that may help",
            ),
            Row(
                "E29",
                ("P9",),
                "A token that cannot be had, or is over in the middle of a run",
                "asked for once more, then an error",
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
                "the result comes at once, the child ends with the run",
            ),
            Row("F02", ("P12",), "Output with NUL and ESC", "valid JSON, and terminals are not steered by it"),
            Row("F03", ("P12",), "Gigabytes of output", "bounded in memory and on disk"),
            Row("F04", ("P14",), "A command that reads stdin", "finds it empty"),
            Row("F05", (), "A command that deletes the folder it is in", "a clear error the next time"),
            Row("F06", ("P13",), "A timeout of a command that ignores signals", "gone in 2 s"),
            Row("F07", ("P14",), "Keys in the environment", "kept from commands, by a setting"),
            Row("F08", ("P15",), "`read` of a pipe", "refused"),
            Row("F09", ("P15",), "`read` of a device without end", "refused"),
            Row("F10", ("P15",), "`read` of five lines of 3 GB", "five lines"),
            Row("F10b", ("P15",), "`read` of five lines of 400 MB", "in little time and memory"),
            Row("F11", ("P17",), "`edit` of a file in Latin-1", "all other bytes stay"),
            Row("F12", ("P17",), "`edit` with a byte order mark and mixed line ends", "all other lines stay"),
            Row("F13", ("P16",), "`edit` on a full disk", "the old file is there"),
            Row("F14", ("P16",), "kill -9 during a `write`", "the old file or the new one"),
            Row("F15", ("P16",), "`edit` through a link, of a file with a mode and two names", "all kept"),
            Row("F16", (), "A command of 3 MB", "a clear error"),
            Row("F17", (), "NUL in a command", "a clear error"),
            Row("F18", (), "Paths and numbers that cannot be", "a clear error each"),
            Row("F19", ("P13",), "Many commands in a row", "no zombies, no open files"),
            Row("F20", ("P26",), "The file of a long output", "0600, and a name nobody can foresee"),
            Row("F20b", ("P26",), "A link in the place of that file", "not followed"),
            Row("F21", ("P15",), "A name in another normal form", "found"),
            Row("F22", ("P15",), "A picture that is none", "no harm"),
            Row("F23", ("P15",), "A picture that would fill the memory", "refused"),
            Row("F24", (), "A pattern that begins with a dash", "a pattern"),
            Row("F25", ("P14",), "Files that the agent has open", "not open in its commands"),
            Row("F26", ("P18",), "A file that changed since it was read", "not edited, if the setting says so"),
            Row(
                "F27", ("P15",), "A search over pipes, devices, circles and millions of files", "bounded; abort in 1 s"
            ),
            Row("F28", (), "A command that forks without end", "it is stopped, the agent lives"),
            Row("H01", ("P15",), "`read` of the environment of a process", "refused"),
            Row("H02", ("P15",), "`read` of our keys", "refused"),
            Row("H03", ("P20",), "`write` into the folder of extensions", "refused"),
        ),
    ),
    Part(
        "Settings, trust, exports, secrets",
        (
            Row("G01", ("P31",), "Settings that are cut, empty or of wrong types", "defaults; named, left as they are"),
            Row("G02", ("P31",), "A broken list of models", "named, left as it is"),
            Row("G03", ("P31",), "A broken file of keys", "named, left as it is"),
            Row("G04", ("P26",), "A file of keys that others can read", "closed, and told"),
            Row("G05", ("P19",), "A repository with an extension", "not run"),
            Row("G06", ("P19",), "A repository that puts words before commands", "not heeded"),
            Row("G07", ("P19",), "A repository with a system prompt", "not used"),
            Row("G08", ("P19",), "A repository that says where sessions go", "not heeded"),
            Row("G09", ("P19",), "A repository whose git runs programs", "they do not run"),
            Row(
                "G10",
                ("P26", "P27"),
                "Markup and script in a conversation that is exported",
                "inert, in a private file",
            ),
            Row("G11", ("P28",), "An export onto a file that is none", "refused"),
            Row("G12", ("P10",), "A server that says our key", "masked everywhere"),
            Row("G13", ("P31",), "An agent's folder that cannot be written to", "said in a line"),
        ),
    ),
    Part(
        "Server mode",
        (
            Row("N01", ("P29",), "No token, a wrong one, one in the address", "refused", NO_SERVER),
            Row("N02", ("P29",), "The name of another host", "refused", NO_SERVER),
            Row("N03", ("P29",), "A request from a web page", "refused", NO_SERVER),
            Row(
                "N04", ("P29",), "A thousand connections, slow ones, huge ones", "bounded, others are served", NO_SERVER
            ),
            Row("N05", ("P29",), "A message without end", "hung up", NO_SERVER),
            Row("N06", ("P29",), "A token that others can read", "it does not start", NO_SERVER),
            Row("N07", ("P29",), "An address that everybody can reach", "it does not start", NO_SERVER),
            Row("N08", ("P29",), "Two clients", "each hears what is its own", NO_SERVER),
        ),
    ),
    Part(
        "Trust",
        (
            Row("S01", ("P19",), "Variables that a project sets in files", "not taken"),
            Row("S02", ("P19",), "A project that sends models elsewhere", "not heeded; no key goes there"),
            Row("S03", ("P19",), "A file of trust within the project", "not heeded"),
            Row("S04", ("P19",), "A link in the place of a trusted folder", "not trusted"),
            Row("S05", ("P19",), "An extension that changes after it was trusted", "not trusted any more"),
            Row("S06", ("P19",), "A command line that changes under its old name", "not trusted any more"),
            Row("S07", ("P20",), "A command in the sandbox that writes what decides about the agent", "stopped"),
        ),
    ),
    Part(
        "Sandbox",
        (
            Row("X01", ("P32",), "Writing outside the folders that may be written", "stopped"),
            Row("X02", ("P32",), "Reading what may not be read", "stopped"),
            Row("X03", ("P32",), "Reading it through a link", "stopped"),
            Row("X04", ("P32",), "Linking or moving it", "stopped"),
            Row("X05", ("P32",), "TCP to this machine and others", "stopped"),
            Row("X06", ("P32",), "UDP, raw and netlink sockets", "stopped"),
            Row("X07", ("P32",), "Signals to other processes, and a look into them", "stopped"),
            Row("X08", ("P32",), "Living on after the command", "stopped"),
            Row("X09", ("P32",), "Namespaces, mounts, io_uring, bpf, keys of the kernel", "stopped"),
            Row("X10", ("P32",), "Writing hooks and settings of git, and our own, inside", "stopped"),
            Row("X11", ("P32",), "Sockets of services on this machine", "stopped"),
            Row("X12", ("P32",), "A kernel that cannot do it", "it does not start"),
        ),
    ),
    Part(
        "Long lives",
        (
            Row("Z01", ("P30",), "10,000 prompts in one process", "memory, files and threads stay"),
            Row("Z02", ("P30",), "1,000 switches, reloads, restarts of extensions", "no growth"),
            Row("Z03", ("P30",), "Days of idling, sleep, a clock that jumps", "answers in 1 s"),
            Row(
                "Z04",
                ("P22",),
                "Memory that is taken by force, from us or from a tool",
                "session whole; the result says so",
            ),
            Row(
                "Z05",
                ("P2", "P22"),
                "One fault after another, at random",
                "nothing acknowledged is lost, nothing hangs",
            ),
        ),
    ),
)

# Rows that were found twice: the second name means the first.
SAME = {"G15": "B07", "H09": "D09", "H05": "E11", "H04": "E12"}

ROWS = {row.id: row for part in PARTS for row in part.rows}

# Rows whose tests are still being written. None is how it should be; take out what has its test.
TO_COME: set[str] = set()

# The figures that a change must keep. What each came to last is in tests/gate/records.jsonl.
GOALS = {
    "R1": "kill -9 at random moments: what was acknowledged is lost",
    "R2": "sessions cut or destroyed at every place: what was whole is lost",
    "R3": "the n-th call to the system fails: something is lost in silence",
    "R4": "mutated lines: crashes, and lines without exactly one response",
    "R5": "mutated sessions and streams: crashes and hangs",
    "R6": "wrong values that are accepted, over all fields of all commands",
    "R7": "a line of 100 MB: time and memory until it is refused",
    "R8": "a reader that stalls for a minute: memory, and responses lost",
    "R9": "bytes that come out for each byte of a long answer",
    "R10": "the time from an abort to its response, whatever goes on",
    "R11": "processes that are left after a stop of any kind",
    "R12": "10 GB of output: memory and disk",
    "R13": "five lines of a file of 10 GB: memory and time",
    "R14": "arguments cut at every byte that are run",
    "R15": "kill -9 and full disks during `edit` and `write`: files neither old nor new",
    "R16": "bytes outside an edit that it changes",
    "R17": "faults of extensions: deaths, lines that are no record, aborts held up",
    "R18": "faults of servers, with each API: wrong ends of a run",
    "R19": "files that others can read, and secrets where they should not be",
    "R20": "tricks of a repository that work without trust",
    "R21": "payloads in an export that run or call home, in a browser",
    "R22": "requests to a server that should be refused",
    "R23": "many prompts in one process: growth and failures",
    "R24": "an hour of random faults: losses, hangs, lines that are no record",
    "R25": "ways out of the sandbox",
    "R26": "the cost of safety: a sync, and the start of a command",
}
GOALS_ABSENT = {"R22": NO_SERVER}
