"""Remembers the state of the repository before each run, without touching branches, index or files.

/checkpoints lists what was remembered, /restore [NUMBER] brings the tracked files back. What is
remembered is a commit that no branch has: git keeps it under refs/tau for as long as the ref is there.
"""

from tau.extension import CommandContext, Context, Event, Pi


def setup(pi: Pi) -> None:
    async def git(*args: str) -> Event:
        return await pi.exec("git", args, timeout=20_000)

    async def checkpoints(ctx: Context) -> list[list[str]]:
        made = await git("for-each-ref", "--format=%(refname) %(subject)", f"refs/tau/{ctx.session.id}")
        return [line.split(" ", 1) for line in made.stdout.splitlines()]

    @pi.on("before_agent_start")
    async def remember(event: Event, ctx: Context) -> None:
        # Nothing to commit makes an empty answer; then the commit we are on is the state.
        made = await git("stash", "create", event.prompt[:60])
        commit = made.stdout.strip() or (await git("rev-parse", "--verify", "HEAD")).stdout.strip()
        if commit:  # else there is no repository here, or nothing in it
            number = len(await checkpoints(ctx)) + 1
            await git("update-ref", f"refs/tau/{ctx.session.id}/{number:04}", commit)

    @pi.command("checkpoints", description="List the states of the repository before each run")
    async def list_all(args: str, ctx: CommandContext) -> None:
        found = await checkpoints(ctx)
        lines = [f"{number}. {subject}" for number, (_, subject) in enumerate(found, 1)]
        ctx.ui.notify("\n".join(lines) or "There are no checkpoints.", "info")

    @pi.command("restore", description="Bring tracked files back to a checkpoint; the last one if no number is given")
    async def restore(args: str, ctx: CommandContext) -> None:
        found = await checkpoints(ctx)
        number = int(args) if args.strip().isdigit() else len(found)
        if not 1 <= number <= len(found):
            ctx.ui.notify(f"There is no checkpoint {args or number}.", "error")
            return
        ref, subject = found[number - 1]
        if await ctx.ui.confirm("Restore?", f"Tracked files go back to checkpoint {number}: {subject}"):
            done = await git("restore", f"--source={ref}", "--worktree", ":/")
            ctx.ui.notify(done.stderr.strip() or f"Checkpoint {number} is restored.", "error" if done.code else "info")
