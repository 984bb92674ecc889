"""The part of the catalogue about the terminal, editors, MCP, TypeScript extensions, packages and fleets."""

from __future__ import annotations

from support.promise_rows import Part, Promise, Row

FRONT_END_PROMISES = (
    Promise(
        "P35",
        "terminal",
        "Nothing that a model, a tool, a file or an extension says controls the terminal; only colors of output stay.",
    ),
    Promise("P36", "terminal", "Keys and pastes that are meant for the editor never answer a question."),
    Promise("P37", "terminal", "However tau ends or is stopped, except by kill -9, the terminal is as it was before."),
    Promise(
        "P38",
        "terminal",
        "A terminal that is slow, resized or wrong costs little memory, loses no text and never delays the agent.",
    ),
    Promise(
        "P39",
        "packages",
        "Nothing is fetched or run unless asked for; content is checked; an installation is complete or has no effect.",
    ),
    Promise(
        "P40",
        "fleet",
        "Whatever dies, every task gets exactly one result, none is lost or doubled, and the same command continues.",
    ),
    Promise("P41", "fleet", "A fleet keeps its limits of money and requests, and writes only to its own folders."),
)

MORE_OF_MCP = (
    Row("M12", ("P33",), "Thousands of mutated messages of a server", "no call gets another answer; memory is bounded"),
    Row("M13", ("P33",), "An abort or a timeout during a call", "cancelled at the server, which lives on"),
    Row("M14", ("P10",), "A redirect elsewhere, a token of another address", "not followed; no secret is sent there"),
    Row("M15", ("P33",), "A server that asks for a password or for what has no form", "declined without a question"),
    Row("M16", ("P33",), "A server that calls its tools harmless", "allows nothing, unless the user trusts it"),
    Row("M17", ("P1",), "`tau mcp serve`: wrong lines, thousands of mutated messages", "one answer each, and no end"),
    Row("M18", ("P13",), "`tau mcp serve`: EOF, SIGTERM, kill -9 during a call", "no process is left"),
    Row("M19", ("P13",), "`tau mcp serve`: a call that is cancelled", "the run is aborted, and there is no answer"),
    Row("M20", ("P32",), "A server of a project, with the sandbox on", "runs inside"),
    Row("M21", ("P15", "P20"), "Tools that read tokens or write the files that name servers", "refused"),
)

MORE_OF_ACP = (
    Row("K10", ("P13",), "A session with MCP servers is closed", "its servers end, others stay"),
    Row("K11", ("P33",), "An MCP server of the editor does not work", "reported; the session works"),
    Row(
        "K12", ("P1",), "A cancel together with its prompt, without a run, for another request", "exactly that one ends"
    ),
    Row("K13", ("P5",), "An extension that prints", "not on stdout"),
    Row("K14", ("P3",), "Sessions, folders, options and servers that are wrong or unknown", "refused by field"),
    Row("K15", ("P22",), "A session that another process has open", "neither loaded nor deleted"),
)

TERMINAL = Part(
    "Terminal",
    (
        Row("T01", ("P35",), "Every control in answers, output, file names and sessions", "spelled out or removed"),
        Row("T02", ("P35",), "Controls in titles, widgets and notifications of extensions", "spelled out or removed"),
        Row("T03", ("P35",), "A command that hides what it does from a question", "shown as it is"),
        Row(
            "T04", ("P36",), "Typing, a held Enter and pastes while a question appears", "no answer; the text is whole"
        ),
        Row("T05", ("P36",), "A paste with control characters, a false end or no end", "text, never keys"),
        Row("T06", ("P36",), "A terminal that answers late, wrongly or not at all", "never keys"),
        Row("T07", ("P37",), "Ctrl+D, Ctrl+C, /quit, every signal, a hang-up, in any state", "restored, session saved"),
        Row("T08", ("P37",), "An error in the interface, or a crash of an extension", "restored, the error is shown"),
        Row("T09", ("P37",), "Ctrl+Z, stop and continue, a stop in the viewer", "a sane prompt; `fg` draws it again"),
        Row("T10", ("P37",), "Another program at the terminal, such as an editor", "it finds the terminal as it was"),
        Row("T11", ("P38",), "Escape, and keys, while an answer floods a slow terminal", "work at once"),
        Row("T12", ("P38",), "A terminal that is not read during an answer", "the agent goes on; memory is bounded"),
        Row("T13", ("P38",), "A storm of sizes, and sizes down to one cell", "one box, no text lost from the history"),
        Row("T14", ("P38",), "Thousands of random keys, pastes and sizes", "no traceback; can always be left"),
        Row("T15", ("P38",), "Answers, output, pastes and sessions of enormous size", "shown to the end"),
        Row(
            "T16", ("P21",), "An extension that floods, hangs or dies while it draws", "only its own lines are affected"
        ),
        Row("T17", ("P10",), "A key that is typed at a login", "never shown"),
    ),
)

TYPESCRIPT = Part(
    "TypeScript extensions",
    (
        Row("J01", ("P21",), "A guard that throws, exits, is killed or uses all memory", "the tool does not run"),
        Row("J02", ("P21",), "An extension that loops", "ended; Python extensions do not notice"),
        Row("J03", ("P21",), "A failure in a timer or an unhandled rejection", "reported with its line; nothing ends"),
        Row("J04", ("P5",), "An extension that prints", "on stderr, not on stdout"),
        Row("J05", ("P21",), "A line that is no message, a value that is no JSON", "an error of that call"),
        Row("J06", ("P21",), "A process that ends during a tool call", "reported once, started again"),
        Row("J07", ("P21",), "A second end of the shared process", "every package has a process of its own"),
        Row("J08", ("P21",), "An extension that cannot be loaded", "the others are loaded"),
        Row(
            "J09",
            ("P13", "P14"),
            "tau ends while an extension loops; programs that it starts",
            "end too; inherit nothing",
        ),
        Row(
            "J10", ("P19",), "A file or package that changes after it was loaded or trusted", "not loaded, not started"
        ),
        Row("J11", ("P21",), "A read of the session that gets no answer", "fails; the next one works"),
        Row("J12", ("P39",), "A damaged file in the cache of compiled code", "not used"),
        Row("J13", ("P21",), "No Node, or one that is too old", "one line; asked for by name, an error"),
    ),
)

PACKAGES = Part(
    "Packages",
    (
        Row("U01", ("P39",), "Install scripts of a package or of its dependencies", "run only if they are named"),
        Row(
            "U02", ("P39",), "A tarball with another digest, without one, or not over https", "refused, nothing changed"
        ),
        Row("U03", ("P39",), "A tarball, source or link that leaves its folder", "refused"),
        Row("U04", ("P39",), "Hooks and submodules of a repository", "not used"),
        Row("U05", ("P39",), "kill -9 at any moment of an installation or update", "the old state or the new one"),
        Row("U06", ("P39",), "Two installations at once", "both are there"),
        Row("U07", ("P19", "P39"), "Packages of an untrusted project", "neither fetched nor loaded"),
        Row("U08", ("P19",), "A package that changes after its project was trusted", "not loaded"),
        Row("U09", ("P39",), "A start with packages that are missing, or without a network", "nothing is fetched"),
        Row("U10", ("P31",), "Damaged settings, a folder that is not writable", "left unchanged, reported"),
        Row("U11", ("P20",), "Tools that write into the folders of packages", "refused"),
        Row("U12", ("P39",), "A package that cannot be fetched, or fails", "leaves nothing; one sentence"),
    ),
)

FLEET = Part(
    "Fleets",
    (
        Row("W01", ("P40", "P13"), "kill -9 of a worker", "its tasks are done elsewhere, no process is left"),
        Row(
            "W02",
            ("P40",),
            "kill -9 of the coordinator at any moment",
            "no result lost or doubled; the next run goes on",
        ),
        Row("W03", ("P40",), "A result that comes twice, or late from a lost worker", "counts once, or not at all"),
        Row("W04", ("P40",), "A worker that is silent for a while, or for too long", "goes on; is given up"),
        Row("W05", ("P40",), "An engine that ends, a worker of another version", "a sentence; the next run goes on"),
        Row("W06", ("P40",), "A full disk at the coordinator", "nothing new starts; results wait"),
        Row("W07", ("P40",), "A full disk at a worker", "takes no orders; others do its tasks"),
        Row("W08", ("P40",), "A damaged ledger", "named; made again from the results"),
        Row("W09", ("P40",), "A pause of the coordinator, a clock that jumps", "no worker is late for it"),
        Row("W10", ("P40",), "The machine stops in the middle of a transaction", "all of it or nothing"),
        Row(
            "W11",
            ("P40",),
            "Tools, models, checks and setups that fail",
            "an outcome each, retried where that can help",
        ),
        Row("W12", ("P40",), "A second coordinator on the same folder", "refused"),
        Row("W13", ("P41",), "Hostile task files: paths, ids, sizes, unknown fields", "refused by line and field"),
        Row("W14", ("P41",), "A budget for the whole fleet", "never exceeded, also after kills"),
        Row("W15", ("P41",), "A provider that refuses", "fewer requests at once; no task fails"),
        Row("W16", ("P41",), "A task that writes outside its folder; no sandbox", "stopped; the fleet does not start"),
        Row("W17", ("P41",), "Many work trees of one repository", "the repository is unchanged"),
        Row("W18", ("P40",), "A task that takes its workers along", "ends as failed"),
        Row("W19", ("P40",), "Random deaths, losses, delays and doubled lines", "one result for every task; it ends"),
        Row("W20", ("P27",), "Markup in the results, and its report", "inert; loads nothing"),
        Row("W21", ("P41",), "Somebody without credentials at a port of a cluster", "no answer; nothing runs"),
    ),
)

FRONT_ENDS = (TERMINAL, TYPESCRIPT, PACKAGES, FLEET)
